"""One pool of connections per process: SQLAlchemy for queries, psycopg for hot statements."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from umbel.errors import Contended, InvariantBroken, Unavailable

Row = dict[str, Any]
Statement = tuple[str, Mapping[str, Any]]

# What PostgreSQL tells a process that was frozen in a transaction when it goes on. psycopg does not
# call it an OperationalError; it is an outage like any other.
_CUT_OFF: Final = psycopg.errors.IdleInTransactionSessionTimeout

MAX_CONFLICTS: Final = 5
"""Tries of a transaction that PostgreSQL ended because of a deadlock or a conflict."""


class Database:
    """The pool of one process. Made after fork: using it in a child of its maker is refused."""

    def __init__(self, url: str, *, role: str, pool_size: int) -> None:
        self._pid = os.getpid()
        self.engine: Engine = create_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=60,  # hundreds of greenlets share a few connections
            connect_args={
                "application_name": f"umbel-{role}",
                "connect_timeout": 5,
                "target_session_attrs": "read-write",
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                # Keepalives watch an idle connection; this, one that waits for what it has sent to
                # arrive at a machine that is gone. Milliseconds.
                "tcp_user_timeout": 10_000,
                # A worker that dies or hangs between two statements must not keep rows locked.
                "options": "-c statement_timeout=5s -c idle_in_transaction_session_timeout=10s",
            },
        )

    def run(self, *statements: Statement) -> list[list[Row]]:
        """Run hot statements as one transaction in one round trip; the rows of each.

        Every statement sees what was committed before it got its locks, so the first one locks.

        Raises:
            Unavailable: no answer from PostgreSQL. The transaction may or may not have happened:
                callers are compare-and-set, so that asking again is safe.
            InvariantBroken: a constraint refused the write.
        """
        for attempt in range(1, MAX_CONFLICTS + 1):
            try:
                return self._run_once(statements)
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                if attempt == MAX_CONFLICTS:
                    raise
            except psycopg.errors.UniqueViolation:
                raise
            except psycopg.errors.IntegrityError as error:
                raise InvariantBroken(
                    f"PostgreSQL refused a write: {error.diag.message_primary}"
                ) from error
        raise AssertionError("unreachable: the loop returns or raises")

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A SQLAlchemy transaction for queries and rare writes."""
        self._check_process()
        try:
            with self.engine.begin() as connection:
                yield connection
        except (OperationalError, PoolTimeoutError) as error:
            raise Unavailable(f"PostgreSQL does not answer: {error}") from error
        except InternalError as error:
            if not isinstance(error.orig, _CUT_OFF):
                raise
            raise Unavailable(f"PostgreSQL has ended the connection: {error}") from error

    def close(self) -> None:
        """Close every idle connection."""
        self.engine.dispose()

    def _run_once(self, statements: Sequence[Statement]) -> list[list[Row]]:
        self._check_process()
        try:
            pooled = self.engine.raw_connection()
        except (psycopg.OperationalError, PoolTimeoutError) as error:
            # A raw connection's errors come from psycopg as they are; the engine's do not.
            raise Unavailable(f"PostgreSQL does not answer: {error}") from error
        connection = cast("psycopg.Connection[Any]", pooled.driver_connection)  # engine is psycopg
        try:
            return _in_one_round_trip(connection, statements)
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
            raise
        except psycopg.errors.ProgramLimitExceeded as error:
            raise InvariantBroken(
                f"PostgreSQL refused a write: {error.diag.message_primary}"
            ) from error
        except psycopg.errors.LockNotAvailable as error:
            raise Contended("A row is locked by somebody else.") from error
        except psycopg.errors.QueryCanceled as error:
            # PostgreSQL answers: a limit of its own has ended the statement, most likely at a lock.
            raise Contended(f"PostgreSQL has ended a statement: {error}") from error
        except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction, _CUT_OFF) as error:
            # Read-only: a standby, or a primary that was fenced off. Another connection may differ.
            if connection.closed or isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                connection.close()
                pooled.invalidate()
                # The others of the pool are most likely dead as well: make the next caller connect.
                self.engine.dispose()
            raise Unavailable(f"PostgreSQL does not answer: {error}") from error
        finally:
            pooled.close()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise InvariantBroken("A database pool was carried across a fork.")


def _in_one_round_trip(
    connection: "psycopg.Connection[Any]", statements: Sequence[Statement]
) -> list[list[Row]]:
    try:
        with connection.pipeline():
            cursors = [
                connection.cursor(row_factory=dict_row).execute(sql, parameters)
                for sql, parameters in statements
            ]
            # Not `commit()`: it waits for an answer before all has been sent, and with a statement
            # larger than the socket's buffer both sides wait for ever (as in psycopg #685). The end
            # of the block sends everything first.
            connection.execute("COMMIT", prepare=False)
    except psycopg.errors.PipelineAborted as error:
        # What the statements after a failed one are told; the failure itself came before it.
        raise error.__context__ or error from None
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]
