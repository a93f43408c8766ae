"""Opening files below a folder so that no name, link or race leads out of it.

Every path is taken part by part from an open folder, and no link is ever followed, not even one
that would stay inside: a link can be swapped between the look and the open. Linux does the walk in
one call (`openat2`); elsewhere, or where a sandbox forbids that call, each part is opened by itself
with O_NOFOLLOW. Both refuse the same paths.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, NoReturn

from umbel.errors import InvalidInput, NotFound, Unavailable

MAX_PATH_BYTES: Final = 4096
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO must not wait for its other end. O_NOCTTY: nor take over a terminal.
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_OPENAT2: Final = 437  # the same number on every Linux architecture since 5.6
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_BENEATH: Final = 0x08
_RESOLVE: Final = _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH
_OPENAT2_TRIES: Final = 16  # EAGAIN: something was renamed during the walk


def split_path(path: str) -> tuple[str, ...]:
    """The parts of a relative path; `.` parts are dropped, so the root itself has none.

    Percent signs, backslashes and look-alike characters are plain characters of a name.

    Raises:
        InvalidInput: absolute, empty, with `..` or an empty part, with U+0000, not valid Unicode,
            or longer than 4,096 bytes.
    """
    shown = repr(path[:200])
    if not path:
        raise InvalidInput("The path is empty: name a file or folder below the workspace.")
    if "\x00" in path:
        raise InvalidInput(f"The path {shown} holds U+0000, which no file name can.")
    try:
        size = len(path.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(f"The path {shown} is not valid Unicode.") from error
    if size > MAX_PATH_BYTES:
        raise InvalidInput(f"The path {shown}… is longer than {MAX_PATH_BYTES} bytes.")
    if path.startswith("/"):
        raise InvalidInput(f"The path {shown} is absolute: write it relative to the workspace.")
    parts = path.removesuffix("/").split("/")
    if ".." in parts:
        raise InvalidInput(f"The path {shown} leads out of its folder: `..` is not allowed.")
    if "" in parts:
        raise InvalidInput(f"The path {shown} has an empty part: write a single `/`.")
    return tuple(part for part in parts if part != ".")


def open_folder(root: int, parts: Sequence[str], path: str) -> int:
    """A new descriptor of the folder at `parts` below the open folder `root`.

    Raises:
        NotFound: there is no such folder.
        InvalidInput: the path meets a link or a file.
    """
    try:
        return _open(root, parts, _FOLDER_FLAGS)
    except OSError as error:
        _explain(error, path)


def open_regular(root: int, parts: Sequence[str], path: str) -> int:
    """A new descriptor, for reading, of the regular file at `parts` below `root`.

    Raises:
        NotFound: there is no such file.
        InvalidInput: a folder, a device, a FIFO or a socket, or the path meets a link.
    """
    try:
        descriptor = _open(root, parts, _FILE_FLAGS)
    except OSError as error:
        _explain(error, path)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidInput(f"{path[:200]!r} is not a regular file.")
    return descriptor


def make_folder(root: int, parts: Sequence[str], path: str) -> int:
    """As `open_folder`, making what is missing of it on the way."""
    descriptor = os.dup(root)
    try:
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=descriptor)
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except OSError as error:
        os.close(descriptor)
        _explain(error, path)
    return descriptor


def explain_os_error(error: OSError, path: str) -> InvalidInput | NotFound | Unavailable:
    """The error of Umbel that says the same, in words for the model and without host paths."""
    shown = repr(path[:200])
    match error.errno:
        case errno.ENOENT:
            return NotFound(f"There is no {shown} in the workspace; list_files shows what is.")
        case errno.ELOOP | errno.ENOTDIR | errno.EXDEV:
            return InvalidInput(
                f"{shown} passes through a link or through something that is no folder; links are "
                "not followed in a workspace, so name the real place."
            )
        case errno.EISDIR:
            return InvalidInput(f"{shown} is a folder.")
        case errno.ENAMETOOLONG:
            return InvalidInput(f"{shown} has a part that is longer than file names can be.")
        case errno.EACCES | errno.EPERM | errno.EROFS | errno.ENXIO | errno.ENODEV | errno.EINVAL:
            return InvalidInput(f"{shown} may not be opened: {error.strerror}.")
        case _:
            return Unavailable(f"{shown} could not be reached: {error.strerror}. Try later.")


def _explain(error: OSError, path: str) -> NoReturn:
    raise explain_os_error(error, path) from error


def _open(root: int, parts: Sequence[str], flags: int) -> int:
    if has_openat2():
        return _open_at_once(root, "/".join(parts) or ".", flags)
    return _open_by_parts(root, parts, flags)


def _open_by_parts(root: int, parts: Sequence[str], flags: int) -> int:
    descriptor = os.dup(root)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        return os.open(parts[-1] if parts else ".", flags, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _open_at_once(root: int, relative: str, flags: int) -> int:
    how = (ctypes.c_uint64 * 3)(flags, 0, _RESOLVE)  # struct open_how: flags, mode, resolve
    name = ctypes.c_char_p(os.fsencode(relative))
    size = ctypes.c_size_t(ctypes.sizeof(how))
    code = errno.EAGAIN
    for _ in range(_OPENAT2_TRIES):
        descriptor: int = _libc().syscall(
            ctypes.c_long(_OPENAT2), ctypes.c_int(root), name, ctypes.byref(how), size
        )
        if descriptor >= 0:
            return descriptor
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code))


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@lru_cache(maxsize=1)
def has_openat2() -> bool:
    """Whether this kernel, and the sandbox this process runs in, allow `openat2`."""
    if os.uname().sysname != "Linux":
        return False
    try:
        root = os.open("/", _FOLDER_FLAGS)
        try:
            os.close(_open_at_once(root, ".", _FOLDER_FLAGS))
        finally:
            os.close(root)
    except OSError:
        return False
    return True
