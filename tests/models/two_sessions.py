"""Two sessions that meet at a lock: the first holds its commit, the second waits."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import make_url

from models.database import Database, Row, Statement
from tests.worker_processes import wait_until

Result = TypeVar("Result")

_BLOCKED = """
SELECT count(*) AS n FROM pg_stat_activity
WHERE datname = current_database() AND %(pid)s = ANY(pg_blocking_pids(pid))
"""
_LOCK_WAITERS = """
SELECT count(*) AS n FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def connect(url: str, *, autocommit: bool = False) -> "psycopg.Connection[Any]":
    """A plain connection to the database of a SQLAlchemy URL."""
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, row_factory=dict_row, autocommit=autocommit)


class Holding(Database):
    """A process whose transaction has run and is not committed yet: any verb can be held so."""

    def __init__(self, url: str) -> None:
        super().__init__(url, role="holding", pool_size=1)
        self._connection = connect(url)
        self._watching = connect(url, autocommit=True)

    def run(self, *statements: Statement) -> list[list[Row]]:
        """As `Database.run`, without the commit."""
        cursors = [self._connection.execute(sql, parameters) for sql, parameters in statements]
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def commit(self) -> None:
        """Let the others see it and go on."""
        self._connection.commit()

    def blocks(self, sessions: int = 1) -> bool:
        """Whether so many other sessions wait for this one."""
        [row] = self._watching.execute(_BLOCKED, {"pid": self._connection.info.backend_pid})
        return bool(row["n"] >= sessions)

    def is_waited_at(self, sessions: int) -> bool:
        """Whether so many sessions of the database wait for a lock, whoever has it."""
        [row] = self._watching.execute(_LOCK_WAITERS)
        return bool(row["n"] >= sessions)

    def close(self) -> None:
        """Roll back what was not committed."""
        self._connection.close()
        self._watching.close()
        super().close()


@contextmanager
def holding(url: str) -> Iterator[Holding]:
    """A session whose verbs stay uncommitted until `commit`."""
    session = Holding(url)
    try:
        yield session
    finally:
        session.close()


def meet(first: Holding, second: Callable[[], Result]) -> Result:
    """What `second` gives when it had to wait for the commit of `first`."""
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[Result] = pool.submit(second)
        try:
            wait_until(
                lambda: first.blocks() or waiting.done(), 5, "the second session meets the lock"
            )
            assert not waiting.done(), "the second session did not wait: no lock is shared"
        finally:
            first.commit()
        return waiting.result(10)
