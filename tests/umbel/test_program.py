"""Programs of tools, with real processes: whatever they do, they end, and the tool goes on."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.worker_processes import wait_until
from tools.trial import TrialContext
from umbel import program
from umbel.program import Finished, ProgramKilled, ProgramLimits, run_program
from umbel.tool import ToolFailed

pytestmark = pytest.mark.slow

PATIENT: Final = 60.0
"""Silence that no loaded machine takes for a stall."""


def run(*argv: str, context: TrialContext | None = None, **more: Any) -> Finished:
    return run_program(context or TrialContext(stall_seconds=PATIENT), argv, **more)


def shell(script: str, **more: Any) -> Finished:
    return run("/bin/sh", "-c", script, **more)


def python(script: str, **more: Any) -> Finished:
    return run(sys.executable, "-c", script, **more)


@dataclass(frozen=True)
class Mark:
    """A word in the arguments of programs, by which those that live are found."""

    word: str

    @property
    def pids(self) -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                arguments = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            # The keeper has the word inside its order, not as an argument of its own.
            if self.word.encode() in arguments:
                found.append(int(folder.name))
        return found


@pytest.fixture
def mark() -> Iterator[Mark]:
    mark = Mark(f"umbel-test-{os.getpid()}-{time.monotonic_ns()}")
    yield mark
    wait_until(lambda: not mark.pids, 30, "every program is gone")


def test_output_of_both_kinds_and_the_exit_code_come_back() -> None:
    done = shell("echo out; echo err >&2; exit 3")
    assert (done.exit_code, sorted(done.output.split()), done.is_cut) == (3, ["err", "out"], False)


def test_a_program_reads_what_it_is_given() -> None:
    text = b"x" * 1_000_000
    assert shell("wc -c", stdin=text).output.strip() == "1000000"


def test_no_secret_of_the_worker_is_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    output = run("env", env={"ONE": "1"}).output
    names = {line.partition("=")[0] for line in output.splitlines()}
    assert "sk-secret" not in output
    assert names <= {"PATH", "LANG", "HOME", "TMPDIR", "ONE", "LC_CTYPE"}
    assert "ONE" in names


def test_it_runs_in_an_empty_folder_that_is_removed(tmp_path: Path) -> None:
    folder = Path(shell("touch made; pwd").output.strip())
    assert not folder.exists()
    assert shell("pwd", cwd=tmp_path).output.strip() == str(tmp_path)
    assert tmp_path.exists()


def test_a_program_that_is_not_there_did_not_start() -> None:
    done = run("no-such-program")
    assert done.exit_code == 127
    assert "no-such-program" in done.output
    with pytest.raises(ToolFailed, match="cannot be started"):
        run("true", cwd=Path("/no/such/folder"))


def test_a_signal_that_ends_it_is_told() -> None:
    assert shell("kill -9 $$").exit_code == 137


def test_output_is_progress_and_silence_is_the_end(mark: Mark) -> None:
    context = TrialContext(stall_seconds=3.0)
    script = "import sys, time\nfor _ in range(8): print('.', flush=True); time.sleep(0.5)\n"
    silence = f"{script}time.sleep(1000)"
    began = time.monotonic()
    with pytest.raises(ProgramKilled, match="silent for 3 s"):
        run(sys.executable, "-c", silence, mark.word, context=context)
    assert time.monotonic() - began >= 3.5 + 3.0
    assert len(context.notes) >= 2
    assert mark.pids == []


def test_a_deadline_ends_a_program_however_much_it_says(mark: Mark) -> None:
    limits = ProgramLimits(seconds=1.0)
    with pytest.raises(ProgramKilled, match="longer than 1 s"):
        shell("while :; do echo on; done", limits=limits)


def test_much_output_is_cut_and_the_program_goes_on() -> None:
    limits = ProgramLimits(output_bytes=1000)
    done = shell("head -c 50000000 /dev/zero; exit 5", limits=limits)
    assert (done.exit_code, len(done.output), done.total_bytes) == (5, 1000, 50_000_000)
    assert done.is_cut


def test_children_in_the_background_end_with_the_program(mark: Mark) -> None:
    sleeper = f"{sys.executable} -c 'import time; time.sleep(1000)' {mark.word}"
    assert shell(f"{sleeper} & {sleeper} & echo started").output == "started\n"
    assert mark.pids == []


DAEMON: Final = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        sleep = ["-c", "import time; time.sleep(1000)", sys.argv[1]]
        os.execv(sys.executable, [sys.executable, *sleep])
    os._exit(0)
os.wait()
"""


def test_a_double_fork_into_a_session_of_its_own_is_no_way_out(mark: Mark) -> None:
    run(sys.executable, "-c", DAEMON, mark.word)
    assert mark.pids == []


def test_a_stall_ends_also_what_has_left_the_group(mark: Mark) -> None:
    context = TrialContext(stall_seconds=3.0)
    with pytest.raises(ProgramKilled):
        run(
            sys.executable,
            "-c",
            DAEMON + "import time; time.sleep(1000)",
            mark.word,
            context=context,
        )
    assert mark.pids == []


def test_too_many_processes_are_the_end_of_all_of_them(mark: Mark) -> None:
    fork = """
import os, time
for _ in range(30):
    if os.fork() == 0:
        break
time.sleep(1000)
"""
    with pytest.raises(ProgramKilled, match="more than 10 processes"):
        run(sys.executable, "-c", fork, mark.word, limits=ProgramLimits(processes=10))
    assert mark.pids == []


def test_memory_is_limited() -> None:
    done = python("bytearray(10 * 2**30)", limits=ProgramLimits(memory_bytes=512 * 2**20))
    assert done.exit_code == 1
    assert "MemoryError" in done.output


def test_the_size_of_files_is_limited() -> None:
    limits = ProgramLimits(file_bytes=1000)
    done = shell("head -c 5000 /dev/zero > big; wc -c < big", limits=limits)
    assert "1000" in done.output.split()


class Ended(BaseException):
    """What a worker raises in the code of a tool."""


def test_a_tool_that_is_cut_short_leaves_no_program(mark: Mark) -> None:
    class Cut(TrialContext):
        def progress(self, note: str = "") -> None:
            raise Ended

    with pytest.raises(Ended):
        run(
            sys.executable,
            "-c",
            "print('.', flush=True); import time; time.sleep(1000)",
            mark.word,
            context=Cut(stall_seconds=PATIENT),
        )
    assert mark.pids == []


OWNER: Final = """
import sys
from tools.trial import TrialContext
from umbel.program import run_program
code = "print('up', flush=True); import time; time.sleep(1000)"
run_program(TrialContext(stall_seconds=600), [sys.executable, "-c", code, sys.argv[1]])
"""


def test_a_killed_worker_leaves_no_program(mark: Mark) -> None:
    root = Path(__file__).parents[2]
    owner = subprocess.Popen([sys.executable, "-c", OWNER, mark.word], cwd=root)
    try:
        wait_until(lambda: len(mark.pids) >= 2, 60, "the owner and its program run")
    finally:
        owner.kill()
        owner.wait()
    wait_until(lambda: not mark.pids, 30, "every program is gone")


GREEN: Final = """
from gevent import monkey
monkey.patch_all()
import sys, time, gevent
from tools.trial import TrialContext
from umbel.program import run_program

def one(number):
    code = "import time; time.sleep(1); print('done')"
    return run_program(TrialContext(stall_seconds=60), [sys.executable, "-c", code]).output

ticks = []
def tick():
    while True:
        ticks.append(1)
        gevent.sleep(0.05)

gevent.spawn(tick)
greenlets = [gevent.spawn(one, number) for number in range(4)]
gevent.joinall(greenlets, raise_error=True)
print([g.value for g in greenlets], len(ticks) > 10)
"""


def test_programs_of_greenlets_run_beside_each_other_and_keep_nobody_waiting() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", GREEN], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == f"{['done' + chr(10)] * 4} True", done.stderr


ASKS_OUT = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5).close()
    print("reached")
except OSError as error:
    print("not reached")
"""


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server outside of the program."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def can_take_networks_away() -> bool:
    return not shell("true").has_network


@pytest.mark.parametrize(("network", "reached"), [(True, True), (None, False), (False, False)])
def test_a_program_has_the_network_only_if_it_is_granted(
    port: int, *, network: bool | None, reached: bool
) -> None:
    if not can_take_networks_away():
        pytest.skip("this kernel or sandbox lets nobody make network namespaces")
    done = run(sys.executable, "-c", ASKS_OUT, str(port), network=network)
    assert done.output == ("reached\n" if reached else "not reached\n")
    assert done.has_network is reached


def test_without_a_network_files_belong_to_whom_they_did(tmp_path: Path) -> None:
    done = shell("echo x > made && id -u && stat -c %u made", cwd=tmp_path)
    assert done.output.split() == [str(os.geteuid())] * 2
    assert (tmp_path / "made").stat().st_uid == os.geteuid()


def test_a_program_that_must_have_no_network_is_not_started_where_it_cannot_be_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Path(program._KEEPER).read_text()
    refused = tmp_path / "keeper.py"
    refused.write_text(keeper.replace("0x4000_0000", "0x4000_0000 | 0x1"))  # no such flag
    monkeypatch.setattr(program, "_KEEPER", refused)
    with pytest.raises(ToolFailed, match="network=True"):
        shell("touch made", cwd=tmp_path, network=False)
    assert not (tmp_path / "made").exists()
    assert shell("echo on", network=None) == Finished(0, "on\n", 3, has_network=True)
