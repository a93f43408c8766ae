"""Who runs the servers: PostgreSQL refuses to be root, and no right is widened to please it."""

import os
import pwd
import stat
from pathlib import Path
from typing import Final

from umbel.child_process import Account
from umbel.errors import Misconfigured

_PREFERRED: Final = ("postgres", "nobody")


def server_account(directory: Path | None) -> Account | None:
    """The account the servers run as; None is our own.

    As root it is the directory's present owner if that is not root, so that state made by somebody
    stays theirs; else `postgres`, or `nobody` where there is no such account.

    Raises:
        Misconfigured: root, and the machine has neither account.
    """
    if os.geteuid() != 0:
        return None
    owner = directory.stat() if directory is not None else None
    if owner is not None and owner.st_uid != 0:
        return Account(_name(owner.st_uid), owner.st_uid, owner.st_gid)
    for name in _PREFERRED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise Misconfigured(
        "PostgreSQL refuses to run as root, and this machine has neither a user 'postgres' nor "
        "'nobody' to run it as. Create one, or start Umbel as an ordinary user."
    )


def blocked_parent(path: Path, account: Account | None) -> Path | None:
    """The outermost folder above `path` that `account` may not enter; None if it may enter all."""
    if account is None:
        return None
    folders = reversed(path.parents)
    return next((folder for folder in folders if not _grants(folder, account, 0o1)), None)


def can_execute(program: Path, account: Account | None) -> bool:
    """Whether `account` can reach, read and run a file."""
    return account is None or (
        blocked_parent(program, account) is None and _grants(program, account, 0o5)
    )


def _grants(path: Path, account: Account, bits: int) -> bool:
    """Whether the mode of `path` gives `account` the bits (4 read, 2 write, 1 execute or enter).

    An access control list may allow more; it is not looked at, and the answer is then a safe "no".
    """
    facts = path.stat()
    if facts.st_uid == account.uid:
        granted = stat.S_IMODE(facts.st_mode) >> 6
    elif facts.st_gid == account.gid:
        granted = stat.S_IMODE(facts.st_mode) >> 3
    else:
        granted = stat.S_IMODE(facts.st_mode)
    return granted & bits == bits


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run as a number without an entry
        return str(uid)
