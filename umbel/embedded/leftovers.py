"""Removes throw-away directories whose owner was killed before it could."""

import contextlib
import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from umbel.child_process import Account
from umbel.embedded.locks import OWNER_LOCK, SERVERS_LOCK, try_lock

PREFIX: Final = "umbel-"
_MARK: Final = "throw-away"


def mark_throw_away(folder: Path) -> None:
    """Allow later starts to remove the folder; call it while `owner.lock` is held."""
    (folder / _MARK).touch(mode=0o600)


def remove_leftovers(base: Path, account: Account | None) -> None:
    """Remove what killed processes of ours left in a temporary folder; skips what is in use."""
    ours = {os.geteuid(), account.uid if account is not None else os.geteuid()}
    for folder in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):  # its owner, or another start, was faster
            if folder.lstat().st_uid in ours and _is_marked(folder):
                _remove_unused(folder)


def _is_marked(folder: Path) -> bool:
    return not folder.is_symlink() and (folder / _MARK).is_file()


def _remove_unused(folder: Path) -> None:
    with ExitStack() as stack:
        for name in (OWNER_LOCK, SERVERS_LOCK):
            descriptor = try_lock(folder / name)
            if descriptor is None:
                return
            stack.callback(os.close, descriptor)
        shutil.rmtree(folder, ignore_errors=True)
