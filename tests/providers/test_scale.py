import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_thousand_streams_fit_into_one_gevent_process() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "streams.py"), "1000"], capture_output=True,
        text=True, timeout=170, cwd=ROOT, check=False, env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["complete"], result["with_usage"]) == (1000, 1000)
    assert result["max_rss_mb"] < 250
