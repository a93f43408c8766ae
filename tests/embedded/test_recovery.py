"""What a crash, a kill or a second starter leaves behind must not matter."""

import os
import queue
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import redis

from tests.embedded.observing import (
    HOLD,
    PATIENCE_SECONDS,
    eventually,
    processes_below,
    start_python,
)
from umbel.embedded import EmbeddedServers, embedded_servers
from umbel.errors import Misconfigured, Unavailable


@contextmanager
def held_elsewhere(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Servers in another process, ready."""
    with start_python(HOLD, str(folder)) as process:
        try:
            wait_for_line(process, "ready")
            yield process
        finally:
            process.kill()
            process.wait()
            assert eventually(lambda: processes_below(folder) == [])


def wait_for_line(process: "subprocess.Popen[str]", start: str) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(start):
            return line
    raise AssertionError("".join(lines))


def connect(servers: EmbeddedServers) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(servers.database_url.replace("+psycopg", ""), autocommit=True)


def test_servers_end_when_their_owner_is_killed(open_folder: Path) -> None:
    with held_elsewhere(open_folder / "data") as owner:
        assert len(processes_below(open_folder)) > 2
        owner.kill()
        owner.wait()
        assert eventually(lambda: processes_below(open_folder) == [])


def test_a_directory_is_usable_right_after_its_owner_was_killed(open_folder: Path) -> None:
    folder = open_folder / "data"
    with held_elsewhere(folder) as owner:
        owner.kill()
        owner.wait()
        with embedded_servers(folder) as servers, connect(servers) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_committed_rows_outlive_a_kill_of_every_process(open_folder: Path) -> None:
    folder = open_folder / "data"

    def lose_everything() -> None:
        with embedded_servers(folder, redis=False) as servers:
            with connect(servers) as connection:
                connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
            for process in processes_below(folder):
                process.kill()

    lose_everything()
    assert (folder / "postgres" / "postmaster.pid").exists()
    with embedded_servers(folder, redis=False) as servers, connect(servers) as connection:
        assert connection.execute("SELECT value FROM kept").fetchone() == (7,)


@pytest.mark.parametrize("name", ["postgres", "valkey"])
def test_a_killed_server_is_reported_and_comes_back_on_its_data_and_socket(
    open_folder: Path, name: str
) -> None:
    with embedded_servers(open_folder / "data") as servers:
        with connect(servers) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
        server = next(process for process in servers.processes if process.name == name)
        ends: queue.Queue[int] = queue.Queue()
        killed = server.pid
        server.watch(ends.put)
        os.kill(killed, signal.SIGKILL)
        assert ends.get(timeout=PATIENCE_SECONDS) == -signal.SIGKILL

        def comes_back() -> bool:
            try:
                server.restart()
                server.wait()
            except Unavailable:  # a process of the killed PostgreSQL is still about
                return False
            return True

        assert eventually(comes_back)
        assert server.pid != killed
        with connect(servers) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.ping()
    assert processes_below(open_folder) == []


def test_a_server_that_runs_is_not_started_a_second_time(open_folder: Path) -> None:
    with embedded_servers(open_folder / "data", database=False) as servers:
        (valkey,) = servers.processes
        with pytest.raises(Unavailable, match="still runs"):
            valkey.restart()


def test_a_pid_file_whose_number_now_belongs_to_another_program_is_ignored(
    open_folder: Path,
) -> None:
    folder = open_folder / "data"
    with embedded_servers(folder, redis=False):
        text = (folder / "postgres" / "postmaster.pid").read_text()
    owner = folder.stat().st_uid
    other = subprocess.Popen(["sleep", "60"], user=owner if os.geteuid() == 0 else None)
    lines = text.splitlines(keepends=True)
    (folder / "postgres" / "postmaster.pid").write_text(f"{other.pid}\n" + "".join(lines[1:]))
    try:
        with embedded_servers(folder, redis=False) as servers, connect(servers) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_second_starter_on_a_used_directory_is_told_so(open_folder: Path) -> None:
    folder = open_folder / "data"
    with held_elsewhere(folder) as owner:
        with pytest.raises(Unavailable, match=f"in use by process {owner.pid}"):
            embedded_servers(folder).__enter__()
        assert owner.poll() is None
        assert len(processes_below(open_folder)) > 2


def test_an_interrupted_initdb_does_not_count_as_data(open_folder: Path) -> None:
    folder = open_folder / "data"
    with start_python(HOLD, str(folder)) as process:
        assert eventually((folder / "postgres.new" / "global").exists)
        process.kill()
        process.wait()
    with embedded_servers(folder, redis=False) as servers, connect(servers) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("moment", ["servers.lock", "valkey", "postgres.new", "postgres"])
def test_ctrl_c_during_the_start_leaves_no_process_and_no_directory(
    open_folder: Path, moment: str
) -> None:
    open_folder.chmod(0o777)
    with start_python(HOLD, env={"TMPDIR": str(open_folder)}) as process:
        assert eventually(lambda: any(open_folder.glob(f"umbel-*/{moment}")))
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert "KeyboardInterrupt" in output
    assert processes_below(open_folder) == []
    assert list(open_folder.iterdir()) == []


def test_what_a_killed_owner_left_in_the_temporary_folder_is_removed_by_the_next(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_folder.chmod(0o777)
    monkeypatch.setenv("TMPDIR", str(open_folder))
    monkeypatch.setattr(tempfile, "tempdir", str(open_folder))
    kept = open_folder / "umbel-kept"
    with embedded_servers(kept, database=False):
        pass
    with start_python(HOLD) as process:
        left = Path(wait_for_line(process, "ready").split()[1])
        process.kill()
        process.wait()
    assert left.parent == open_folder
    assert eventually(lambda: processes_below(left) == [])
    with embedded_servers(database=False) as first, embedded_servers(database=False) as second:
        assert not left.exists()
        assert first.directory.exists()
        assert second.directory.exists()
    assert list(open_folder.iterdir()) == [kept]


def test_a_server_that_cannot_start_is_explained_by_the_end_of_its_log(open_folder: Path) -> None:
    folder = open_folder / "data"
    with embedded_servers(folder, redis=False):
        pass
    (folder / "postgres" / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(Unavailable, match=r"(?s)postgres\.log.*no_such_setting"):
        embedded_servers(folder).__enter__()
    assert processes_below(folder) == []


def test_a_directory_with_files_of_somebody_else_is_never_taken_over(open_folder: Path) -> None:
    (open_folder / "thesis.txt").write_text("years of work")
    with pytest.raises(Misconfigured, match=r"'thesis\.txt'"):
        embedded_servers(open_folder).__enter__()
    assert [path.name for path in open_folder.iterdir()] == ["thesis.txt"]
    assert open_folder.stat().st_mode & 0o777 == 0o755
