import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("gevent_script.py")
ROOT = Path(__file__).parents[2]


def test_streams_stall_abort_and_run_side_by_side_under_gevent() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=120, cwd=ROOT,
        check=False, env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["texts"] == ["ok"] * 50
    assert result["stalled"] == "stall"
    assert result["aborted"] == ["aborted", "aborted"]
    assert max(result["woke_seconds"]) < 0.5
    assert result["together_seconds"] < 5.0
    assert result["forks"] == 0
