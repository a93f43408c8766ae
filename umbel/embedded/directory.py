"""The one directory the embedded servers live in. Nothing outside it is created or changed.

    owner.lock servers.lock   who uses it (umbel/embedded/locks.py)
    run/                      the two sockets; a link where the directory's own path is too long
    postgres/  valkey/        their data
    programs/                 a copy of the binaries, where the server account cannot reach them
    *.log                     what the servers say

The directory has mode 0700 and belongs to the server account: whoever can enter it is trusted.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from umbel.child_process import Account, signals_held
from umbel.embedded.account import blocked_parent, server_account
from umbel.embedded.leftovers import PREFIX, mark_throw_away, remove_leftovers
from umbel.embedded.locks import OWNER_LOCK, SERVERS_LOCK, wait_lock
from umbel.errors import Misconfigured, Unavailable

_LONGEST_SOCKET: Final = "/.s.PGSQL.5432"
_SOCKET_PATH_BYTES: Final = 107
_PLAIN: Final = re.compile(r"[A-Za-z0-9._/-]+")
"""Paths that need quoting neither in a URL nor in either server's configuration."""
_LEFTOVER_SECONDS: Final = 60.0
"""Servers whose owner was killed end by themselves, PostgreSQL after a checkpoint."""
_OWNER_SECONDS: Final = 0.3
"""Whoever only looks whether the lock is taken holds it for a moment."""
_LARGE_LOG_BYTES: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class ServerDirectory:
    """A prepared directory that nobody else uses."""

    path: Path
    account: Account | None
    is_kept: bool
    run: Path
    """Where the sockets are; short enough, and free of characters that need quoting."""
    servers_lock: int
    """The descriptor to hand down to every server process."""

    def make(self, name: str) -> Path:
        """A folder below, mode 0700, owned by the server account."""
        folder = self.path / name
        folder.mkdir(mode=0o700, exist_ok=True)
        _own(folder, self.account)
        return folder

    @contextlib.contextmanager
    def log(self, name: str) -> Generator[int]:
        """A descriptor that appends to a log file below; a large file is set aside first."""
        path = self.path / name
        if path.exists() and path.stat().st_size > _LARGE_LOG_BYTES:
            path.replace(path.with_suffix(".log.old"))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            _own(descriptor, self.account)
            yield descriptor
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def server_directory(directory: Path | None) -> Generator[ServerDirectory]:
    """Prepare and lock a directory; None makes a private one that is removed afterwards.

    Raises:
        Misconfigured: the directory cannot serve: it holds other files, belongs to somebody else,
            or lies where the server account cannot go.
        Unavailable: another process uses it.
    """
    with ExitStack() as stack:
        path, account = _kept(directory) if directory is not None else _throw_away(stack)
        for_owner = _lock(stack, path / OWNER_LOCK, _OWNER_SECONDS)
        _leave_number(for_owner)
        for_servers = _lock(stack, path / SERVERS_LOCK, _LEFTOVER_SECONDS)
        _own(for_owner, account)
        _own(for_servers, account)
        if directory is None:
            mark_throw_away(path)
        run = _make_run(stack, path, account)
        yield ServerDirectory(path, account, directory is not None, run, for_servers)


def _kept(directory: Path) -> tuple[Path, Account | None]:
    path = directory.expanduser().resolve()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_foreign(path)
        account = server_account(path)
        _refuse_unreachable(path, account)
        path.chmod(0o700)
        _own(path, account)
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        raise Misconfigured(
            f"The server directory {str(path)!r} cannot be used: {error.strerror}. "
            "Choose another one, or run as the user it belongs to."
        ) from error
    return path, account


def _throw_away(stack: ExitStack) -> tuple[Path, Account | None]:
    account = server_account(None)
    base = _temporary_base(account, 0)
    remove_leftovers(Path(base), account)
    with signals_held():
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        stack.callback(_remove_when_free, path)
    _own(path, account)
    return path, account


def _refuse_foreign(path: Path) -> None:
    """Never take over a folder with other content: its mode and its owner are about to change."""
    entries = {entry.name for entry in path.iterdir()} - {"lost+found"}
    if entries and OWNER_LOCK not in entries:
        raise Misconfigured(
            f"The server directory {str(path)!r} holds files that are not Umbel's, such as "
            f"{min(entries)!r}. Choose an empty or a new one."
        )


def _refuse_unreachable(path: Path, account: Account | None) -> None:
    blocked = blocked_parent(path, account)
    if blocked is not None and account is not None:
        raise Misconfigured(
            f"The server directory {str(path)!r} lies in {str(blocked)!r}, which the user "
            f"{account.name!r} may not enter. PostgreSQL refuses to run as root, so it runs as "
            "that user, and Umbel changes no permission outside its directory. Choose a directory "
            "that user can reach, such as '/var/lib/umbel', or start Umbel as an ordinary user."
        )


def _own(path: Path | int, account: Account | None) -> None:
    """Everything in the directory is the account's, so that it can also use it by itself."""
    if account is None:
        return
    if isinstance(path, int):
        os.fchown(path, account.uid, account.gid)
    else:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _lock(stack: ExitStack, path: Path, seconds: float) -> int:
    descriptor = wait_lock(path, seconds)
    if descriptor is None:
        number = path.read_text(encoding="ascii", errors="replace").strip()
        who = f"process {number}" if number.isdigit() else "another process"
        raise Unavailable(
            f"The server directory {str(path.parent)!r} is in use by {who}. "
            "Stop that one, or choose another directory."
        )
    stack.callback(os.close, descriptor)
    return descriptor


def _leave_number(owner_lock: int) -> None:
    """Say who holds the directory, for the refusal of the next one."""
    os.ftruncate(owner_lock, 0)
    os.pwrite(owner_lock, f"{os.getpid()}\n".encode(), 0)


def _remove_when_free(path: Path) -> None:
    """Remove a throw-away directory, once the last server process has let go of it."""
    descriptor = wait_lock(path / SERVERS_LOCK, _LEFTOVER_SECONDS)
    shutil.rmtree(path, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)


def _make_run(stack: ExitStack, path: Path, account: Account | None) -> Path:
    """An empty folder for the sockets: what is in it belongs to servers that are gone."""
    run = path / "run"
    _remove_run(run)
    if _is_usable(run):
        run.mkdir(mode=0o700)
        _own(run, account)
        return run
    with signals_held():
        base = _temporary_base(account, len(f"/{PREFIX}run-12345678{_LONGEST_SOCKET}"))
        short = Path(tempfile.mkdtemp(prefix=f"{PREFIX}run-", dir=base))
        stack.callback(_remove_run, run)
        run.symlink_to(short)
    _own(short, account)
    return short


def _is_usable(run: Path) -> bool:
    text = f"{run}{_LONGEST_SOCKET}"
    return _PLAIN.fullmatch(text) is not None and len(text.encode()) <= _SOCKET_PATH_BYTES


def _remove_run(run: Path) -> None:
    if run.is_symlink():
        target = run.readlink()
        # Only what `_make_run` can have made: whoever owns the directory could point elsewhere.
        if target.name.startswith(f"{PREFIX}run-") and not target.is_symlink():
            shutil.rmtree(target, ignore_errors=True)
        run.unlink()
    elif run.exists():
        shutil.rmtree(run)


def _temporary_base(account: Account | None, needed_bytes: int) -> str:
    """The first temporary folder the account can reach that leaves room for a socket's name."""
    for base in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 - mkdtemp makes it private
        if (
            len(base.encode()) + needed_bytes <= _SOCKET_PATH_BYTES
            and (needed_bytes == 0 or _PLAIN.fullmatch(base))
            and os.access(base, os.W_OK | os.X_OK)
            and blocked_parent(Path(base).resolve() / "new", account) is None
        ):
            return base
    raise Misconfigured(
        f"No temporary folder can be used: {tempfile.gettempdir()!r} and '/tmp' are not writable, "
        "too long, or closed to the server's user. Set TMPDIR, or choose a server directory."
    )
