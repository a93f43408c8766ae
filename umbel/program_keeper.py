"""Keeps one program of a tool: `python -I -S program_keeper.py ORDER`, with ORDER as JSON.

See `umbel.program`. Only the standard library, and no import of `umbel`. Whatever the program
starts becomes a child of this process once its own parent is gone, also behind a double fork and in
a session of its own: so when the program ends, or SIGTERM asks for it, all of it can be killed.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_CLONE_NEWUSER: Final = 0x1000_0000
_CLONE_NEWNET: Final = 0x4000_0000
_WAITED_FOR: Final = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_SECONDS: Final = 0.2


def _keep(order: dict[str, Any]) -> None:
    """Start the program, wait for its end, kill what it leaves, and say how it ended."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    obstacle = "it is granted" if order["network"] else _leave_network()
    if obstacle and order["network"] is False:
        os.write(order["report"], json.dumps({"ended": "network", "why": obstacle}).encode())
        return
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # after it: other rights would undo this
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != order["parent"]:
        return
    program = os.fork()
    if program == 0:
        _become(order)
    how = {"ended": "killed"}
    while how == {"ended": "killed"}:
        number = signal.sigtimedwait(_WAITED_FOR, _LOOK_SECONDS)
        if number is not None and number.si_signo != signal.SIGCHLD:
            break
        how = _look(program, order["processes"]) or how
    _kill_all(program)
    os.write(order["report"], json.dumps({**how, "network": bool(obstacle)}).encode())


def _leave_network() -> str:
    """Go where there are no interfaces, with all that is started from here; else why it cannot be.

    A user without rights makes a world of users, in which only they themselves are known.
    """
    if sys.platform != "linux":
        return f"{sys.platform} has no network namespaces"
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) == 0:
        return ""
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return f"the kernel refuses: {os.strerror(ctypes.get_errno())}"
    with contextlib.suppress(OSError):  # without them files are still theirs, under no name
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return ""


def _look(program: int, processes: int) -> dict[str, Any] | None:
    """How the program has ended; None: it has not."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            break
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            return {"ended": "exited", "code": code} if code >= 0 else {"ended": f"signal {-code}"}
    return {"ended": "processes"} if len(_descendants()) > processes else None


def _become(order: dict[str, Any]) -> None:
    """Replace this forked process by the program."""
    try:
        os.setsid()
        for number in (*_WAITED_FOR, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.closerange(3, 65_536)
        for name, value in order["limits"].items():
            kind = getattr(resource, name)
            most = resource.getrlimit(kind)[1]
            value = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.setrlimit(kind, (value, value))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvp(order["argv"][0], order["argv"])  # noqa: S606 - its only purpose
    except (OSError, ValueError) as error:
        os.write(2, f"cannot start {order['argv'][0]!r}: {error}\n".encode())
    os._exit(127)


def _kill_all(program: int) -> None:
    """Kill everything below this process; when this returns nothing of it is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program, signal.SIGKILL)  # at once, so that forks cannot run away from it
    while True:
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        signal.sigtimedwait(_WAITED_FOR, _LOOK_SECONDS)  # the next of them to die


def _descendants() -> list[int]:
    """Processes below this one; those whose parent dies come to this one."""
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            parent = int(file.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(file.parent.name))
    found = [os.getpid()]
    for pid in found:
        found += children.pop(pid, [])
    return found[1:]


def _prctl(what: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(what, int(value), 0, 0, 0)


if __name__ == "__main__":
    _keep(json.loads(sys.argv[1]))
