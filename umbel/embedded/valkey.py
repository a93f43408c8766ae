"""Starts Valkey on a unix socket alone: broker, locks and live stream of an embedded Umbel."""

import os
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import quote

from umbel.child_process import Launch, signals_held, spawn, stop_child
from umbel.embedded.directory import ServerDirectory
from umbel.embedded.environment import server_environment
from umbel.embedded.programs import valkey_program
from umbel.embedded.readiness import await_ready

_SOCKET: Final = "valkey.sock"
_LOG: Final = "valkey.log"
_READY_SECONDS: Final = 120.0
_STOP: Final = ((signal.SIGTERM, 10.0),)


class Valkey:
    """A running server; `start` registers its end on the given stack."""

    def __init__(self, site: ServerDirectory, process: "subprocess.Popen[bytes]") -> None:
        self._site = site
        self._process = process

    @classmethod
    def start(cls, site: ServerDirectory, stack: ExitStack) -> "Valkey":
        """Start the server without waiting for it.

        Raises:
            Misconfigured: the wheel is not installed.
        """
        program = valkey_program(site)
        folder = site.make("valkey")
        with site.log(_LOG) as log, signals_held():
            process = spawn(
                Launch(
                    argv=(str(program), *_options(site)),
                    env=server_environment(),
                    output=log,
                    account=site.account,
                    cwd=folder,
                    kept_fds=(site.servers_lock,),
                )
            )
            stack.callback(stop_child, process, _STOP)
        return cls(site, process)

    def wait(self) -> str:
        """The redis-py URL, once the server has loaded its data and answers.

        Raises:
            Unavailable: it ended or does not answer.
        """
        path = self._site.run / _SOCKET
        await_ready(self._process, lambda: _answers(path), self._site.path / _LOG, _READY_SECONDS)
        return f"unix://{quote(str(path))}"


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
