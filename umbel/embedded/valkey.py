"""Starts Valkey on a unix socket alone: broker, locks and live stream of an embedded Umbel."""

import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import quote

from umbel.embedded.directory import ServerDirectory
from umbel.embedded.programs import valkey_program
from umbel.embedded.server_process import EmbeddedServer

_SOCKET: Final = "valkey.sock"


class Valkey(EmbeddedServer):
    """A running Valkey; it ends with the stack given to `start`."""

    name = "valkey"
    end_steps = ((signal.SIGTERM, 10.0),)

    @classmethod
    def start(cls, site: ServerDirectory, stack: ExitStack) -> "Valkey":
        """Start the server without waiting for it.

        Raises:
            Misconfigured: the wheel is not installed.
        """
        program = valkey_program(site)
        site.make(cls.name)
        return cls(site, program, stack)

    @property
    def url(self) -> str:
        """For redis-py."""
        return f"unix://{quote(str(self._site.run / _SOCKET))}"

    def is_ready(self) -> bool:
        """Whether it takes connections now."""
        return _answers(self._site.run / _SOCKET)

    def _arguments(self) -> list[str]:
        return _options(self._site)

    def _make_way(self) -> None:
        """Its socket: it removes a stale one by itself, and holds no other claim."""


def _options(site: ServerDirectory) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(site.run / _SOCKET),
        "unixsocketperm": "700",
        "daemonize": "no",
        "save": "",
        # A throw-away directory goes with the server: writing its log would be work for nobody.
        "appendonly": "yes" if site.is_kept else "no",
        "appendfsync": "everysec",
        # Messages and locks must never be thrown out to make room.
        "maxmemory-policy": "noeviction",
    }
    return [text for name, value in options.items() for text in (f"--{name}", value)]


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        try:
            client.connect(os.fspath(path))
            client.sendall(b"PING\r\n")
            return client.recv(64).startswith(b"+PONG")
        except OSError:
            return False
