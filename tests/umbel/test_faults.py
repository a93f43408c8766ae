import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from umbel.faults import POINTS

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("umbel", "loop", "models", "providers", "locks", "tools", "scheduler", "tasks")


def run(program: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", f"from umbel.faults import fault\n{program}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def armed(faults: str, **more: str) -> dict[str, str]:
    return {"UMBEL_TEST_BUILD": "1", "UMBEL_FAULTS": faults, **more}


def test_every_point_stands_in_the_code_and_every_one_in_the_code_is_known() -> None:
    text = "\n".join(
        path.read_text()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "faults.py"
    )
    called = set(re.findall(r"""\bfault\(\s*["']([a-z_.]+)["']""", text))
    named = {point for point in POINTS if f'"{point}"' in text}
    assert named == set(POINTS), "a point that nothing reaches"
    assert called <= set(POINTS), "a point that cannot be armed"


def test_unarmed_points_do_nothing() -> None:
    done = run("fault('step.claimed', run_id='r'); fault('no.such.point'); print('on')")
    assert done.stdout == "on\n"


def test_arming_takes_a_second_variable_so_that_no_deployment_does_it_by_accident() -> None:
    done = run("print('on')", UMBEL_FAULTS="step.claimed:kill")
    assert done.returncode != 0
    assert "UMBEL_TEST_BUILD=1" in done.stderr


@pytest.mark.parametrize("faults", ["no.such.point:kill", "step.claimed:explode", "step.claimed"])
def test_a_plan_with_a_mistake_is_refused(faults: str) -> None:
    done = run("print('on')", **armed(faults))
    assert (done.returncode, done.stdout) == (1, "")


def test_an_armed_point_kills_the_process_at_once() -> None:
    done = run("fault('step.claimed'); print('on')", **armed("step.claimed:kill"))
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")


def test_an_armed_point_raises_at_its_nth_hit_only() -> None:
    program = (
        "for n in range(1, 5):\n"
        "    try: fault('step.claimed'); print(n)\n"
        "    except RuntimeError as error: print(type(error).__name__, error)\n"
    )
    done = run(program, **armed("step.claimed:raise:n=3,sweep.mid:kill"))
    assert done.stdout.splitlines() == ["1", "2", "FaultInjected step.claimed", "4"]


def test_a_hook_is_told_the_point_and_its_facts() -> None:
    program = "fault('step.claimed', run_id='run_1', step='2')"
    hooked = armed("step.claimed:hook", UMBEL_FAULT_HOOK="builtins:print")
    assert run(program, **hooked).stdout == "step.claimed {'run_id': 'run_1', 'step': '2'}\n"
