"""PostgreSQL and Valkey of the harness's own: there to be killed, emptied and put in disorder."""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import psycopg
import redis

from models.migration import migrate
from tests.chaos.harness.wire import Wire, wire_to
from tests.services import Place
from umbel.embedded import EmbeddedServers, embedded_servers
from umbel.embedded.server_process import EmbeddedServer
from umbel.errors import Unavailable
from umbel.names import CONTROL_QUEUE, LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE

PREFIX: Final = "chaos"
OWN_ROLE: Final = "chaos"
"""The harness's own sessions, which it does not end."""
_BACK_SECONDS: Final = 60.0
_QUEUES: Final = tuple(
    f"{{{PREFIX}}}:{queue}" for queue in (LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE, CONTROL_QUEUE)
)
_SESSIONS: Final = """
SELECT pid, application_name FROM pg_stat_activity
WHERE application_name LIKE 'umbel-%%' AND application_name <> %s
"""


class Servers:
    """Both servers, running."""

    def __init__(self, embedded: EmbeddedServers, wire: Wire, url_through_wire: str) -> None:
        self._postgres, self._valkey = embedded.processes
        self.place = Place(embedded.database_url, embedded.redis_url, PREFIX)
        self.place_of_workers = replace(self.place, database_url=url_through_wire)
        """The same, with what may be cut in between."""
        self.wire = wire
        self.postgres_is_down = threading.Event()
        self.valkey_is_down = threading.Event()

    def crash_postgres(self, number: signal.Signals) -> None:
        """End PostgreSQL without a shutdown and start it again on its data.

        SIGQUIT is its immediate shutdown, SIGKILL ends the postmaster alone.
        """
        self.postgres_is_down.set()
        os.kill(self._postgres.pid, number)
        _bring_back(self._postgres)
        self.postgres_is_down.clear()

    def lose_valkey(self, seconds: float) -> None:
        """Kill Valkey and start it again, empty, after so long."""
        self.valkey_is_down.set()
        os.kill(self._valkey.pid, signal.SIGKILL)
        threading.Event().wait(seconds)
        _bring_back(self._valkey)
        self.valkey_is_down.clear()

    def end_sessions(self, chance: random.Random, *, all_of_them: bool) -> str:
        """End database sessions of the workers in whatever they do; which."""
        with self.connect() as connection:
            found = connection.execute(_SESSIONS, [f"umbel-{OWN_ROLE}"]).fetchall()
            chosen = found if all_of_them else chance.sample(found, min(1, len(found)))
            for pid, _ in chosen:
                connection.execute("SELECT pg_terminate_backend(%s)", [pid])
        return ", ".join(sorted({str(name) for _, name in chosen})) or "nobody"

    def empty_valkey(self) -> str:
        """FLUSHALL; how many keys there were."""
        with self.redis() as client:
            count = int(client.dbsize())
            client.flushall()
        return f"{count} keys"

    def cut_valkey(self) -> str:
        """End every connection to Valkey but this one."""
        with self.redis() as client:
            return f"{client.client_kill_filter(_type='normal', skipme=True)} connections"

    def double_messages(self) -> str:
        """Put every message of every list there once more."""
        with self.redis() as client:
            messages = [(queue, client.lrange(queue, 0, -1)) for queue in _QUEUES]
            for queue, waiting in messages:
                if waiting:
                    client.rpush(queue, *waiting)
        return f"{sum(len(waiting) for _, waiting in messages)} messages"

    def shuffle_messages(self, chance: random.Random) -> str:
        """Put the messages of every list in another order."""
        count = 0
        with self.redis() as client:
            for queue in _QUEUES:
                # Whoever takes one meanwhile gets it twice: a fault more, and a welcome one.
                waiting = list(client.lrange(queue, 0, -1))
                chance.shuffle(waiting)
                if waiting:
                    pipeline = client.pipeline()
                    pipeline.delete(queue)
                    pipeline.rpush(queue, *waiting)
                    pipeline.execute()
                count += len(waiting)
        return f"{count} messages"

    @contextlib.contextmanager
    def redis(self) -> Iterator["redis.Redis"]:
        """A client for the block."""
        with redis.Redis.from_url(self.place.redis_url, socket_timeout=5) as client:
            yield client

    @contextlib.contextmanager
    def connect(self) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
        """A session that no fault ends on purpose."""
        url = self.place.database_url.replace("+psycopg", "")
        with psycopg.connect(
            url, autocommit=True, connect_timeout=5, application_name=f"umbel-{OWN_ROLE}"
        ) as connection:
            yield connection


@contextlib.contextmanager
def running_servers() -> Iterator[Servers]:
    """Fresh servers with a migrated database, for the block.

    Raises:
        AssertionError: the database would not survive a crash: it proves nothing.
    """
    with embedded_servers() as embedded, wire_to(embedded.database_url) as (wire, url):
        servers = Servers(embedded, wire, url)
        migrate(servers.place.database_url)
        with servers.connect() as connection:
            for setting in ("fsync", "synchronous_commit"):
                assert connection.execute(f"SHOW {setting}").fetchone() == ("on",), setting
        yield servers


def _bring_back(server: EmbeddedServer) -> None:
    """Start a server that was told to end, as often as its last processes are in the way."""
    deadline = time.monotonic() + _BACK_SECONDS
    while True:
        try:
            server.restart()
            server.wait()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            threading.Event().wait(0.1)
        else:
            return
