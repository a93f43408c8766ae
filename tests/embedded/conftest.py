"""Places for servers: pytest's own temporary folders are closed to the account of the servers."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder every user can enter, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="ut-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
