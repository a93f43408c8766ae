"""A proxy before PostgreSQL: what is sent arrives, and what comes back may not.

Ending a session from the server rolls back what it was at; only a cut on the way back leaves a
client whose COMMIT took place and was not answered.
"""

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

_CHUNK_BYTES: Final = 65_536
_SOCKET: Final = ".s.PGSQL.5432"

Result = TypeVar("Result")


class _Link:
    """One client's way to the server and back."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._client, self._server = client, server
        self._is_watched = self._has_asked = False
        self._may_answer = asyncio.Event()
        self._may_answer.set()

    async def carry(self, asked: asyncio.StreamReader, answered: asyncio.StreamReader) -> None:
        """Hand on in both directions until one of them ends."""
        both = [
            asyncio.ensure_future(self._forth(asked)),
            asyncio.ensure_future(self._back(answered)),
        ]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        self.cut()

    def lose_next_answer(self) -> None:
        """Let the next thing that is asked be done, and end the link instead of answering."""
        self._is_watched = True

    def cut(self) -> None:
        """End it at once, whatever is on its way."""
        for writer in (self._client, self._server):
            writer.transport.abort()

    async def hold(self, seconds: float) -> None:
        """Let what is asked arrive, and keep back what is answered for so long."""
        self._may_answer.clear()
        await asyncio.sleep(seconds)
        self._may_answer.set()

    async def _forth(self, asked: asyncio.StreamReader) -> None:
        while data := await asked.read(_CHUNK_BYTES):
            self._has_asked = self._is_watched
            self._server.write(data)
            await self._server.drain()

    async def _back(self, answered: asyncio.StreamReader) -> None:
        while data := await answered.read(_CHUNK_BYTES):
            if self._has_asked:
                return
            await self._may_answer.wait()
            self._client.write(data)
            await self._client.drain()


class Wire:
    """The proxy at work; its methods may be called from any thread."""

    def __init__(self, server: Path) -> None:
        self._server = str(server)
        self._loop = asyncio.new_event_loop()
        self._links: set[_Link] = set()

    def lose_an_answer(self, chance: random.Random) -> int:
        """See `_Link.lose_next_answer`; how many links it was done to, at most one."""
        return self._do_to_one(chance, _Link.lose_next_answer)

    def hold_an_answer(self, chance: random.Random, seconds: float) -> int:
        """See `_Link.hold`; how many links it was done to, at most one."""

        def hold(link: _Link) -> None:
            self._loop.create_task(link.hold(seconds))

        return self._do_to_one(chance, hold)

    def cut(self) -> int:
        """End every link; how many."""

        def cut_all() -> int:
            links = list(self._links)
            for link in links:
                link.cut()
            return len(links)

        return self._call(cut_all)

    @contextlib.contextmanager
    def listening(self, folder: Path) -> Iterator[None]:
        """Take connections at PostgreSQL's usual socket name in this folder, for the block."""
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        listener = self._await(asyncio.start_unix_server(self._take, folder / _SOCKET))
        try:
            yield
        finally:
            self._await(self._end(listener))
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    async def _take(self, asked: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            answered, server = await asyncio.open_unix_connection(self._server)
        except OSError:
            client.transport.abort()  # as the server is away
            return
        link = _Link(client, server)
        self._links.add(link)
        try:
            await link.carry(asked, answered)
        finally:
            self._links.discard(link)

    async def _end(self, listener: asyncio.Server) -> None:
        """Nothing is left that the loop would still have to do."""
        listener.close()
        for link in self._links:
            link.cut()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    def _do_to_one(self, chance: random.Random, do: Callable[[_Link], None]) -> int:
        def to_one() -> int:
            links = list(self._links)
            if links:
                do(chance.choice(links))
            return min(1, len(links))

        return self._call(to_one)

    def _call(self, function: Callable[[], Result]) -> Result:
        async def call() -> Result:
            return function()

        return self._await(call())

    def _await(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


@contextlib.contextmanager
def wire_to(database_url: str) -> Iterator[tuple[Wire, str]]:
    """A proxy before a server at a unix socket, and the database's URL through it."""
    host = unquote(parse_qs(urlsplit(database_url).query)["host"][0])
    with TemporaryDirectory(prefix="umbel-wire-") as name:
        folder = Path(name)
        wire = Wire(Path(host) / _SOCKET)
        with wire.listening(folder):
            yield wire, database_url.replace(urlsplit(database_url).query, f"host={folder}")
