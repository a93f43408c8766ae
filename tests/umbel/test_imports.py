"""The arrows between packages, as the import linter sees them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_import_arrow_points_down() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_client_half_loads_without_the_server_half() -> None:
    program = (
        "import sys, umbel, umbel.contracts, umbel.tool, umbel.names, umbel.errors\n"
        "own = {'loop', 'models', 'tasks', 'tools', 'providers', 'locks', 'scheduler'}\n"
        "print(*own & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
