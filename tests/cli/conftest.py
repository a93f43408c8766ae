"""Where the systems of these tests live."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the servers' account can reach, with a workspace."""
    path = Path(tempfile.mkdtemp(prefix="umbelup-", dir="/tmp"))
    path.chmod(0o755)
    (path / "work").mkdir()
    (path / "work" / "guide.md").write_text("When a worker dies, another one goes on.\n")
    yield path
    shutil.rmtree(path)
