"""The heartbeat and the node lock, with real processes and a real database."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from models.database import Database
from models.workers import drop_predecessors, register
from tasks.node_lock import NodeLock
from tasks.presence import Node, Presence, is_alive, libpq_conninfo, new_worker_id
from tasks.presence_log import PresenceLog
from tests.models.story import query
from tests.services import Services
from tests.worker_processes import wait_until
from umbel.contracts import WorkerId

ROOT = Path(__file__).resolve().parents[2]
NODE = Node("step@here boot:1:2", "step", "prefork")


def a_presence(url: str, *, beat: float = 0.05, dead_after: float = 10.0) -> Presence:
    return Presence(url, NODE, beat_seconds=beat, dead_after_seconds=dead_after)


def known(database: Database) -> dict[str, bool]:
    """Worker ids, and whether each has beaten within the last second."""
    rows = query(
        database, "SELECT id, beat_at > now() - interval '1 second' AS is_fresh FROM workers"
    )
    return {row["id"]: row["is_fresh"] for row in rows}


def enrol(database: Database, worker: str, pid: int, node: str = NODE.identity) -> None:
    register(database, WorkerId(worker), node=node, role="step", pool="prefork", pid=pid)


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()


def test_rows_of_living_processes_are_beaten(
    database: Database, url: str, child: "subprocess.Popen[bytes]"
) -> None:
    enrol(database, "wrk_parent", os.getpid())
    enrol(database, "wrk_child", child.pid)
    database.run(("UPDATE workers SET beat_at = now() - interval '1 hour'", {}))
    a_presence(url)._beat()
    assert known(database) == {"wrk_parent": True, "wrk_child": True}


def test_the_row_of_a_child_that_died_is_removed(
    database: Database, url: str, child: "subprocess.Popen[bytes]"
) -> None:
    enrol(database, "wrk_parent", os.getpid())
    enrol(database, "wrk_child", child.pid)
    presence = a_presence(url)
    presence._beat()
    child.kill()
    wait_until(lambda: not is_alive(child.pid), 10, "the child is dead")
    presence._beat()
    assert set(known(database)) == {"wrk_parent"}


def test_a_process_that_got_the_number_of_a_dead_child_does_not_beat_for_it(
    database: Database, url: str
) -> None:
    """Numbers are given out again: what the dead child held would be held for ever."""
    enrol(database, "wrk_parent", os.getpid())
    enrol(database, "wrk_child", 1)  # it lives, and it is no child of this process
    a_presence(url)._beat()
    assert set(known(database)) == {"wrk_parent"}


def test_rows_of_other_nodes_are_left_alone(database: Database, url: str) -> None:
    enrol(database, "wrk_mine", os.getpid())
    enrol(database, "wrk_other", 1, node="step@there")
    database.run(("UPDATE workers SET beat_at = now() - interval '1 hour'", {}))
    a_presence(url)._beat()
    assert known(database) == {"wrk_mine": True, "wrk_other": False}


def test_a_row_that_was_removed_under_a_living_process_comes_back(
    database: Database, url: str
) -> None:
    """A cut longer than the clean-up's patience must not leave a living worker without a row."""
    enrol(database, "wrk_mine", os.getpid())
    presence = a_presence(url)
    presence._beat()
    database.run(("DELETE FROM workers", {}))
    presence._beat()
    assert known(database) == {"wrk_mine": True}


def test_a_connection_that_was_cut_is_an_error_for_the_next_beat(
    database: Database, url: str
) -> None:
    enrol(database, "wrk_mine", os.getpid())
    presence = a_presence(url)
    presence._beat()
    database.run(
        (
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'umbel-beat'",
            {},
        )
    )
    with pytest.raises(ConnectionError):
        presence._beat()


def test_a_process_beats_while_its_hub_is_busy(database: Database, url: str) -> None:
    """A greenlet that computes must not look like a dead worker."""
    program = (
        "import gevent.monkey; gevent.monkey.patch_all()\n"
        "from tasks.presence import Node, Presence\n"
        f"presence = Presence({url!r}, Node('busy', 'step', 'gevent'),"
        " beat_seconds=0.1, dead_after_seconds=10)\n"
        "presence.start()\n"
        "while True: pass\n"
    )
    busy = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    try:
        enrol(database, "wrk_busy", busy.pid, node="busy")
        for _ in range(2):
            database.run(("UPDATE workers SET beat_at = now() - interval '1 hour'", {}))
            wait_until(lambda: known(database)["wrk_busy"], 20, "it beats")
    finally:
        busy.kill()
        busy.wait()


def test_a_worker_that_cannot_beat_knows_that_it_is_lost() -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    presence = Presence(nowhere, NODE, beat_seconds=600, dead_after_seconds=0.5)
    assert not presence.is_lost
    presence.start()
    wait_until(lambda: presence.is_lost, 10, "it is lost before others take its work")
    presence.stop()
    assert "ConnectionError" in str(presence.changes[0])


def test_beats_that_fail_are_logged_once_and_so_is_the_first_that_gets_through_again(
    database: Database, url: str, services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tasks.presence_log")
    enrol(database, "wrk_mine", os.getpid())
    presence = a_presence(url, dead_after=1.0)
    log = PresenceLog(presence)
    name = make_url(url).database
    presence.start()
    try:
        wait_until(lambda: known(database)["wrk_mine"], 20, "it beats")
        log.look()
        services.databases._execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        services.databases._execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = '{name}' AND application_name = 'umbel-beat'"
        )
        wait_until(lambda: presence.is_lost, 20, "many beats have failed")
        log.look()
    finally:
        services.databases._execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    wait_until(lambda: not presence.is_lost, 20, "a beat gets through")
    presence.stop()
    log.look()
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert said == [
        ("WARNING", "heartbeat not taken by PostgreSQL"),
        ("INFO", "heartbeat taken again by PostgreSQL"),
    ]
    assert "ConnectionError" in caplog.records[0].__dict__["cause"]


def test_a_node_lock_is_held_by_one_at_a_time_and_its_identity_stays() -> None:
    name = f"step@{new_worker_id()}"
    first, second = NodeLock(name, "db"), NodeLock(name, "db")
    identity = first.acquire()
    assert first.is_exclusive
    other = second.acquire()
    assert not second.is_exclusive
    assert identity != other
    assert name in identity
    assert first._file is not None
    first._file.close()
    third = NodeLock(name, "db")
    assert third.acquire() == identity, "the next life of this node is recognised"
    assert third._file is not None
    third._path.unlink()
    for lock in (second, third):
        assert lock._file is not None
        lock._file.close()


def test_two_systems_on_one_machine_do_not_share_a_node_lock(tmp_path: Path) -> None:
    name = f"step@{new_worker_id()}"
    locks = [NodeLock(name, "one"), NodeLock(name, "two")]
    identities = {lock.acquire() for lock in locks}
    assert len(identities) == 2
    assert all(lock.is_exclusive for lock in locks)
    for lock in locks:
        assert lock._file is not None
        lock._file.close()
        lock._path.unlink()


def test_only_rows_of_the_same_node_are_dropped_with_its_predecessor(database: Database) -> None:
    enrol(database, "wrk_old", 1)
    enrol(database, "wrk_other", 1, node="step@there")
    drop_predecessors(database, NODE.identity)
    assert set(known(database)) == {"wrk_other"}


def test_a_process_that_ended_is_not_alive_before_it_is_collected(
    child: "subprocess.Popen[bytes]",
) -> None:
    assert is_alive(os.getpid())
    assert is_alive(child.pid)
    child.kill()
    wait_until(lambda: not is_alive(child.pid), 10, "a zombie does not live")
    child.wait()
    assert not is_alive(child.pid)


def test_the_heartbeat_gives_up_on_a_silent_server_soon() -> None:
    told = libpq_conninfo("postgresql+psycopg://u:p%40ss@h:5/d?host=/run&connect_timeout=9")
    assert told.startswith(b"postgresql://u:p%40ss@h:5/d?")
    assert b"connect_timeout=9" in told, "what the URL says wins"
    assert b"tcp_user_timeout=8000" in told
