"""The one folder a run may touch, as tools see it."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tools.beneath import (
    explain_os_error,
    make_folder,
    open_folder,
    open_regular,
    split_path,
)
from tools.settings_files import refuse_settings_file, refuse_settings_name
from umbel.errors import InvalidInput, Misconfigured, NotFound, Unavailable
from umbel.tool import FileEntry

READ_LIMIT_BYTES: Final = 32 * 1024 * 1024
WRITE_LIMIT_BYTES: Final = 8 * 1024 * 1024
MAX_ENTRIES: Final = 100_000
_CHUNK_BYTES: Final = 1024 * 1024
_TEMPORARY: Final = ".umbel-write-"
"""How unfinished files begin; they are not listed, and a crash may leave one."""
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class DirectoryWorkspace:
    """A `umbel.tool.Workspace` in one folder of this machine. Safe to share between threads.

    Links are never followed, hard links from outside are never written through: a write makes a
    new file and renames it over the old name.
    """

    def __init__(
        self,
        root: Path,
        *,
        read_limit_bytes: int = READ_LIMIT_BYTES,
        write_limit_bytes: int = WRITE_LIMIT_BYTES,
    ) -> None:
        """Take `root`, which must exist; a link to it is followed now and never again.

        Raises:
            Misconfigured: `root` is no folder.
        """
        try:
            self._root = root.resolve(strict=True)
            self._identity = _identity(self._root.stat())
        except OSError as error:
            raise Misconfigured(
                f"The workspace {str(root)!r} cannot be used ({error.strerror}): create the folder."
            ) from error
        if not self._root.is_dir():
            raise Misconfigured(f"The workspace {str(root)!r} is no folder: name one.")
        self._read_limit_bytes = read_limit_bytes
        self._write_limit_bytes = write_limit_bytes

    def list_files(self, path: str) -> list[FileEntry]:
        """Entries directly below a folder, by name; kinds: file, folder, link, other."""
        parts = split_path(path)
        with self._open_root() as root:
            folder = open_folder(root, parts, path)
            try:
                return _entries(folder, "/".join(parts), path)
            finally:
                os.close(folder)

    def walk(self, path: str) -> list[FileEntry]:
        """Every regular file below a folder, by path; links are not followed.

        Raises:
            InvalidInput: more than 100,000 entries; name a smaller folder.
        """
        files: list[FileEntry] = []
        folders, seen = [path], 0
        while folders:
            for entry in self._list_if_there(folders.pop(), is_start=seen == 0):
                seen += 1
                if entry.kind == "folder":
                    folders.append(entry.path)
                elif entry.kind == "file":
                    files.append(entry)
            if seen > MAX_ENTRIES:
                raise InvalidInput(
                    f"{path[:200]!r} holds more than {MAX_ENTRIES} entries: name a smaller folder."
                )
        return sorted(files, key=lambda entry: entry.path)

    def read_bytes(self, path: str, limit: int | None = None) -> bytes:
        """The content of a regular file, at most `limit` bytes of it.

        Raises:
            InvalidInput: without `limit`, the file is larger than the workspace reads at once.
        """
        with self._open_root() as root:
            descriptor = open_regular(root, _file_parts(path), path)
            try:
                return self._read(descriptor, path, limit)
            except OSError as error:
                raise explain_os_error(error, path) from error
            finally:
                os.close(descriptor)

    def read_text(self, path: str) -> str:
        """The content of a file as UTF-8; bytes that are not UTF-8 become U+FFFD."""
        return self.read_bytes(path).decode("utf-8", errors="replace")

    def write_text(self, path: str, text: str) -> int:
        """Replace a file atomically, making its folders; returns the bytes written.

        Raises:
            InvalidInput, NotFound, Unavailable: the file is as it was before (folders on the way to
                it may have been made); one that Umbel is set by always is.
            OSError: the new file is in place, but may not survive a power failure.
        """
        data = self._checked(path, text)
        parts = _file_parts(path)
        refuse_settings_name(parts, path)
        with self._open_root() as root:
            folder = make_folder(root, parts[:-1], path)
            try:
                refuse_settings_file(folder, parts[-1], path)
                _replace(folder, parts[-1], data, path)
                os.fsync(folder)
            finally:
                os.close(folder)
        return len(data)

    def source_id(self, path: str) -> str:
        """The absolute path of a file; links in the path of the root are followed."""
        return str(self._root.joinpath(*split_path(path)))

    @contextmanager
    def _open_root(self) -> Iterator[int]:
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise NotFound(
                f"The workspace folder itself cannot be opened ({error.strerror}): nothing can be "
                "read or written until its owner restores it."
            ) from error
        try:
            if _identity(os.fstat(root)) != self._identity:
                raise NotFound(
                    "The workspace folder was replaced by another one since the work began: "
                    "nothing is read or written there."
                )
            yield root
        finally:
            os.close(root)

    def _list_if_there(self, folder: str, *, is_start: bool) -> list[FileEntry]:
        """Entries of a folder; one that vanished or changed during a walk has none."""
        try:
            return self.list_files(folder)
        except (NotFound, InvalidInput):
            if is_start:
                raise
            return []

    def _read(self, descriptor: int, path: str, limit: int | None) -> bytes:
        wanted = self._read_limit_bytes if limit is None else min(limit, self._read_limit_bytes)
        size = os.fstat(descriptor).st_size
        if limit is None and size > wanted:
            raise _too_large(path, f"has {size} bytes", wanted)
        pieces: list[bytes] = []
        left = wanted + (limit is None)  # one more byte shows that a file without a size is larger
        while left > 0 and (piece := os.read(descriptor, min(left, _CHUNK_BYTES))):
            pieces.append(piece)
            left -= len(piece)
        if limit is None and left == 0:
            raise _too_large(path, "grew while it was read", wanted)
        return b"".join(pieces)

    def _checked(self, path: str, text: str) -> bytes:
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"The text for {path[:200]!r} holds half a surrogate pair at character "
                f"{error.start}: it is not valid Unicode."
            ) from error
        if len(data) > self._write_limit_bytes:
            raise InvalidInput(
                f"The text for {path[:200]!r} has {len(data)} bytes, at most "
                f"{self._write_limit_bytes} can be written at once: write several files."
            )
        return data


def _file_parts(path: str) -> tuple[str, ...]:
    parts = split_path(path)
    if not parts or path.endswith("/"):
        raise InvalidInput(f"{path[:200]!r} names a folder: name a file in it.")
    return parts


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _too_large(path: str, fact: str, limit_bytes: int) -> InvalidInput:
    return InvalidInput(
        f"{path[:200]!r} {fact}, at most {limit_bytes} can be read at once: search it instead."
    )


def _entries(folder: int, prefix: str, path: str) -> list[FileEntry]:
    found: list[FileEntry] = []
    try:
        for name in sorted(os.listdir(folder)):
            if name.startswith(_TEMPORARY):
                continue
            with suppress(FileNotFoundError):  # deleted since the listing
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                full = f"{prefix}/{name}" if prefix else name
                found.append(FileEntry(full, _kind(status.st_mode), status.st_size))
    except OSError as error:
        raise explain_os_error(error, path) from error
    return found


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def _replace(folder: int, name: str, data: bytes, path: str) -> None:
    """Put `data` under `name` in the open folder, or change nothing."""
    temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
    try:
        mode = _mode_of_replaced(folder, name, path)
        _write_new(folder, temporary, data, mode)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        refusal = explain_os_error(error, path)
        if isinstance(refusal, Unavailable):
            raise Unavailable(
                f"{path[:200]!r} could not be written ({error.strerror}); it is as it was before."
            ) from error
        raise refusal from error


def _mode_of_replaced(folder: int, name: str, path: str) -> int | None:
    """The permissions to keep; None for a new file.

    Raises:
        InvalidInput: what is there is no regular file.
    """
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"{path[:200]!r} is a {_kind(status.st_mode)}, not a regular file.")
    return stat.S_IMODE(status.st_mode) & 0o777


def _write_new(folder: int, name: str, data: bytes, mode: int | None) -> None:
    descriptor = os.open(name, _NEW_FILE, 0o666, dir_fd=folder)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if mode is not None:
            os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
