"""Servers that `umbel up` started itself and that do not answer."""

import os
import signal
import socket
from pathlib import Path

from tests.cli.announcing import running_system
from tests.doctor.looking import look_at
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.own_servers import own_server_remedy
from umbel.cli.running_system import RunningSystem
from umbel.embedded import embedded_servers
from umbel.settings import load_settings


def context_of(data: Path, system: RunningSystem) -> Context:
    settings = load_settings({"UMBEL_CONFIG": ""}, redis_url=system.redis_url or None)
    return Context(settings, data=data, running=system)


def test_a_valkey_that_hangs_is_named_by_its_process_and_its_log(tmp_path: Path) -> None:
    with embedded_servers(database=False) as servers:
        [valkey] = servers.processes
        with running_system(tmp_path, redis_url=servers.redis_url) as system:
            context = context_of(tmp_path, system)
            assert look_at("redis", context).state == "ok"
            os.kill(valkey.pid, signal.SIGSTOP)
            try:
                finding = look_at("redis", context)
            finally:
                os.kill(valkey.pid, signal.SIGCONT)
    assert finding.state == "problem"
    assert "does not answer" in finding.found
    assert "Start it" not in finding.found
    assert f"`kill -KILL {valkey.pid}`" in str(finding.remedy)
    assert str(tmp_path / "valkey.log") in str(finding.remedy)


def test_a_server_that_is_gone_comes_back_by_itself(tmp_path: Path) -> None:
    with running_system(tmp_path, redis_url=f"unix://{tmp_path}/none.sock") as system:
        finding = look_at("redis", context_of(tmp_path, system))
    assert finding.state == "problem"
    assert str(finding.remedy).startswith("Wait a moment: `umbel up` starts it again.")


def test_postgresql_is_named_in_the_same_way_and_a_given_server_is_not(tmp_path: Path) -> None:
    place = str(tmp_path / ".s.PGSQL.5432")
    with (
        socket.socket(socket.AF_UNIX) as server,
        running_system(tmp_path) as system,
        running_system(tmp_path / "other", has_own_servers=False) as other,
    ):
        server.bind(place)
        server.listen()
        mine = own_server_remedy(context_of(tmp_path, system), "postgres", place)
        given = own_server_remedy(context_of(tmp_path, other), "postgres", place)
    assert f"kill -KILL {os.getpid()}" in str(mine)
    assert given is None
