"""The address of the demo model of `umbel up`, the same at every start.

Services are told it once (`export UMBEL_MODEL_BASE_URL=…`) and should not have to be told again.
"""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from providers.demo_faults import is_demo_model
from umbel.cli.endpoints import ChosenModel
from umbel.cli.kept_file import read_kept, write_kept

_FILE: Final = "demo.port"


def kept_port(directory: Path) -> int:
    """Where it listened last time; 0 where that is not known."""
    try:
        text = read_kept(directory / _FILE) or ""
    except OSError:  # the directory is closed to us, which others say better
        return 0
    return int(text) if text.isdecimal() and int(text) < 65_536 else 0


def keep_port(directory: Path, model: ChosenModel) -> None:
    """Remember where the model listens, if it is the demo."""
    if is_demo_model(model.model):
        write_kept(directory / _FILE, str(urlsplit(model.base_url).port))
