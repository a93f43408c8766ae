"""The files that say what Umbel's own processes may do: no tool writes them.

A model that works where somebody keeps `umbel.toml` could otherwise let the next run change things
without asking.
"""

import os
from collections.abc import Sequence

from umbel.errors import InvalidInput
from umbel.settings_sources import CONFIG_FILE, settings_path
from umbel.target_name import target_name


def refuse_settings_name(parts: Sequence[str], path: str) -> None:
    """Raise if a path passes through the name that settings are looked for by, in any folder.

    Raises:
        InvalidInput: it does, in some spelling that a file system may take for the same.
    """
    if any(target_name(part) == CONFIG_FILE for part in parts):
        raise _refusal(path)


def refuse_settings_file(folder: int, name: str, path: str) -> None:
    """Raise if `name` in the open folder is the file that this process has its settings from.

    Raises:
        InvalidInput: it is, under whatever name.
    """
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
        of_process = settings_path(os.environ).stat()
    except OSError:  # nothing to replace, or no settings file: then this is not it
        return
    if os.path.samestat(there, of_process):
        raise _refusal(path)


def _refusal(path: str) -> InvalidInput:
    return InvalidInput(
        f"{path[:200]!r} would set what Umbel may do: no tool writes that file. Tell the person "
        "who asked what to change in it."
    )
