"""Real children: what they say is heard, how they end is known, and none is ever left."""

import os
import signal
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.embedded.observing import eventually, start_python
from umbel.errors import InvalidInput
from umbel.server_processes import EndedProcess, ProcessSpec, ServerProcesses

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "


def python(name: str, program: str) -> ProcessSpec:
    argv = (sys.executable, "-u", "-c", textwrap.dedent(program))
    return ProcessSpec(name, argv, dict(os.environ))


class Heard:
    """Collects lines and ends; waiting for one never sleeps."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.ends: list[EndedProcess] = []
        self._news = threading.Condition()

    def line(self, name: str, line: str) -> None:
        with self._news:
            self.lines.append((name, line))
            self._news.notify_all()

    def end(self, ended: EndedProcess) -> None:
        with self._news:
            self.ends.append(ended)
            self._news.notify_all()

    def wait(self, is_true: Callable[[], bool]) -> None:
        with self._news:
            assert self._news.wait_for(is_true, 20), (self.lines, self.ends)


def test_lines_of_both_streams_arrive_in_order_under_the_name_of_the_process(
    tmp_path: Path,
) -> None:
    heard = Heard()
    with ServerProcesses(log_path=tmp_path / "log", on_line=heard.line) as processes:
        program = "import sys; print('one'); print('two', file=sys.stderr); print('drei ü')"
        processes.start(python("worker", program))
        heard.wait(lambda: len(heard.lines) == 3)
    assert heard.lines == [("worker", "one"), ("worker", "two"), ("worker", "drei ü")]
    assert (tmp_path / "log").read_text() == "worker | one\nworker | two\nworker | drei ü\n"


def test_a_line_that_is_not_utf8_or_endless_is_still_handed_on() -> None:
    heard = Heard()
    with ServerProcesses(on_line=heard.line) as processes:
        program = "import os; os.write(1, b'\\xff\\n' + b'x' * 200_000 + b'\\nlast')"
        processes.start(python("worker", program))
        heard.wait(lambda: ("worker", "last") in heard.lines)
    assert heard.lines[0] == ("worker", "\N{REPLACEMENT CHARACTER}")
    assert sum(len(line) for _, line in heard.lines[1:-1]) == 200_000


def test_a_process_that_dies_is_reported_once_after_its_last_line() -> None:
    heard = Heard()
    with ServerProcesses(on_line=heard.line, on_end=heard.end) as processes:
        processes.start(python("beat", "print('bye'); raise SystemExit(3)"))
        heard.wait(lambda: heard.ends == [EndedProcess("beat", 3)])
        assert heard.lines == [("beat", "bye")]
        assert processes.dead() == [EndedProcess("beat", 3)]
    assert heard.ends == [EndedProcess("beat", 3)]


def test_a_killed_process_is_reported_with_its_signal_and_can_be_started_again() -> None:
    heard = Heard()
    with ServerProcesses(on_end=heard.end) as processes:
        spec = python("worker", "import signal; signal.pause()")
        os.kill(processes.start(spec), signal.SIGKILL)
        heard.wait(lambda: heard.ends == [EndedProcess("worker", -signal.SIGKILL)])
        assert psutil.pid_exists(processes.start(spec))


def test_a_program_that_does_not_exist_says_so_and_ends_with_127() -> None:
    heard = Heard()
    with ServerProcesses(on_line=heard.line, on_end=heard.end) as processes:
        processes.start(ProcessSpec("flower", ("/no/such/program",), {}))
        heard.wait(lambda: heard.ends == [EndedProcess("flower", 127)])
    assert "'/no/such/program'" in heard.lines[0][1]


def test_a_name_is_used_once_at_a_time() -> None:
    with ServerProcesses() as processes:
        spec = python("worker", "import signal; signal.pause()")
        processes.start(spec)
        with pytest.raises(InvalidInput, match="'worker'"):
            processes.start(spec)


def test_stopping_gives_a_process_the_time_to_end_by_itself() -> None:
    heard = Heard()
    program = """
        import signal
        def end(*_):
            print("drained")
            raise SystemExit(0)
        signal.signal(signal.SIGTERM, end)
        print("up")
        signal.pause()
    """
    with ServerProcesses(on_line=heard.line, on_end=heard.end) as processes:
        pid = processes.start(python("worker", program))
        heard.wait(lambda: ("worker", "up") in heard.lines)
        processes.stop(10)
        assert not psutil.pid_exists(pid)
        assert heard.lines[-1] == ("worker", "drained")
        assert processes.dead() == []
    assert heard.ends == []


def test_a_process_that_ignores_the_request_is_killed_with_its_whole_group() -> None:
    heard = Heard()
    program = f"""
        import subprocess, sys
        subprocess.Popen([sys.executable, "-u", "-c", {STUBBORN + "signal.pause()"!r}])
        {STUBBORN}signal.pause()
    """
    with ServerProcesses(on_line=heard.line) as processes:
        leader = psutil.Process(processes.start(python("worker", program)))
        heard.wait(lambda: heard.lines == [("worker", "up")] * 2)
        family = [leader, *leader.children()]
        processes.stop(0.1)
        assert not leader.is_running()
        assert psutil.wait_procs(family, timeout=5)[1] == []
    assert len(family) == 2


def test_what_a_dead_leader_leaves_in_its_group_is_killed() -> None:
    heard = Heard()
    program = f"""
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-u", "-c", {STUBBORN + "signal.pause()"!r}])
        print(child.pid)
        sys.stdin.read()
        import signal; signal.pause()
    """
    with ServerProcesses(on_line=heard.line, on_end=heard.end) as processes:
        leader = processes.start(python("worker", program))
        heard.wait(lambda: len(heard.lines) == 2)
        left = psutil.Process(int(next(line for _, line in heard.lines if line != "up")))
        os.kill(leader, signal.SIGKILL)
        heard.wait(lambda: len(heard.ends) == 1)
        gone, alive = psutil.wait_procs([left], timeout=10)
    assert (gone, alive) == ([left], [])


def test_a_callback_that_fails_stops_neither_the_output_nor_the_process() -> None:
    heard = Heard()

    def fail_once(name: str, line: str) -> None:
        heard.line(name, line)
        if len(heard.lines) == 1:
            raise LookupError

    with ServerProcesses(on_line=fail_once) as processes:
        processes.start(python("worker", "print('one'); print('two')"))
        heard.wait(lambda: len(heard.lines) == 2)


OWNER = """
    import os, signal, sys, threading
    from umbel.server_processes import ProcessSpec, ServerProcesses

    waiting = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.pause()"
    spec = ProcessSpec("worker", (sys.executable, "-c", waiting), dict(os.environ))
    with ServerProcesses() as processes:
        def start():
            print(processes.start(spec), flush=True)
        if "thread" in sys.argv:
            thread = threading.Thread(target=start)
            thread.start()
            thread.join()
        else:
            start()
        sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_child_outlives_its_owner(number: signal.Signals) -> None:
    with start_python(OWNER) as owner:
        assert owner.stdout is not None
        child = psutil.Process(int(owner.stdout.readline()))
        assert child.is_running()
        owner.send_signal(number)
        owner.communicate(timeout=20)
        assert eventually(lambda: not child.is_running())


def test_a_child_started_by_a_thread_outlives_that_thread_but_not_the_owner() -> None:
    with start_python(OWNER, "thread") as owner:
        assert owner.stdout is not None
        child = psutil.Process(int(owner.stdout.readline()))
        with pytest.raises(psutil.TimeoutExpired):
            child.wait(0.5)
        owner.kill()
        owner.communicate(timeout=20)
        assert eventually(lambda: not child.is_running())


def test_some_processes_are_ended_before_the_others() -> None:
    heard = Heard()
    with ServerProcesses(on_end=heard.end) as processes:
        pause = "import signal; signal.pause()"
        first, last = (processes.start(python(name, pause)) for name in ("beat", "step"))
        processes.stop(10, names=("beat",))
        assert not psutil.pid_exists(first)
        assert psutil.pid_exists(last)
        os.kill(last, signal.SIGKILL)
        heard.wait(lambda: heard.ends == [EndedProcess("step", -signal.SIGKILL)])


STUBBORN_OWNER = """
    import os, sys
    from umbel.server_processes import ProcessSpec, ServerProcesses

    spec = ProcessSpec("worker", (sys.executable, "-u", "-c", sys.argv[1]), dict(os.environ))
    with ServerProcesses(
        on_line=lambda _, line: print(line, flush=True), orphan_seconds=0.5
    ) as processes:
        processes.start(spec)
        sys.stdin.read()
"""


def test_a_child_that_does_not_end_when_its_owner_is_killed_is_killed_with_its_group() -> None:
    family = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-u", "-c", {STUBBORN + "signal.pause()"!r}])
{STUBBORN}
print(os.getpid(), child.pid)
signal.pause()
"""
    with start_python(STUBBORN_OWNER, family) as owner:
        assert owner.stdout is not None
        lines = [owner.stdout.readline().strip() for _ in range(3)]
        numbers = next(line for line in lines if line != "up")
        orphans = [psutil.Process(int(number)) for number in numbers.split()]
        owner.kill()
        owner.wait()
        assert all(orphan.is_running() for orphan in orphans)
        assert eventually(lambda: not any(orphan.is_running() for orphan in orphans), 5)
    assert len(orphans) == 2


def test_leaving_the_block_ends_the_warden_too() -> None:
    before = set(psutil.Process().children())
    with ServerProcesses() as processes:
        processes.start(python("worker", "import signal; signal.pause()"))
        assert len(set(psutil.Process().children()) - before) == 2
    assert set(psutil.Process().children()) - before == set()
