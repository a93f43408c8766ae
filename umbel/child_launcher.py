"""Becomes another program: `python -I -S child_launcher.py PARENT SIGNAL UID GID PROGRAM ARGS…`.

See `umbel.child_process`. Only the standard library, and no import of `umbel`: it runs before
every child, as whoever starts it, in about 35 ms.
"""

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_RESET: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,  # Python itself ignores these two, and ignoring is inherited
    signal.SIGXFSZ,
)


def _become(parent: int, death_signal: int, uid: int, gid: int, argv: list[str]) -> None:
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    if uid >= 0:
        os.setgroups([gid])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        # After the change of user, which clears it.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent:  # it died before the call above could matter
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvp(argv[0], argv)  # noqa: S606 - replacing this process is its only purpose


if __name__ == "__main__":
    try:
        _parent, _signal, _uid, _gid = map(int, sys.argv[1:5])
        _become(_parent, _signal, _uid, _gid, sys.argv[5:])
    except OSError as error:
        os.write(2, f"cannot start {sys.argv[5]!r}: {error}\n".encode())
        os._exit(127)
