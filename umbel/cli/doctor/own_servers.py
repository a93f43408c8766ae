"""What to do about a server that `umbel up` started itself and that does not answer."""

import socket
import struct
from typing import Final, Literal

from umbel.cli.doctor.context import Context
from umbel.cli.running_system import default_data_directory

_SECONDS: Final = 1.0
_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group, as Linux gives them."""


def own_server_remedy(
    context: Context, name: Literal["postgres", "valkey"], socket_path: str
) -> str | None:
    """What brings it back; None: it is no server of the system that is looked at."""
    system = context.running
    if system is None:
        return None
    is_own = system.has_own_database if name == "postgres" else system.has_own_redis
    if not is_own:
        return None
    log = (context.data or default_data_directory()).expanduser() / f"{name}.log"
    pid = _listener(socket_path)
    if pid is None:
        return f"Wait a moment: `umbel up` starts it again. If it stays so, read {log}."
    return (
        f"It hangs: end it with `kill -KILL {pid}`, and `umbel up` starts it again on the same "
        f"data. Its log is {log}."
    )


def _listener(socket_path: str) -> int | None:
    """Who listens on a unix socket: the kernel takes connections also for a process that hangs."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_SECONDS)
        try:
            probe.connect(socket_path)
            peer = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except (OSError, AttributeError):  # nobody, or a system that does not tell
            return None
    pid, _, _ = _CREDENTIALS.unpack(peer)
    return int(pid)
