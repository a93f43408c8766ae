"""What `umbel doctor` asks of PostgreSQL: read-only looks at the server, the work and the rules."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg.errors
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError

from models.invariants import Invariant
from models.refusals import connection_error
from umbel.errors import Unavailable

CONNECT_SECONDS: Final = 3
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A PostgreSQL server as our role sees it."""

    version_number: int
    """180001 is 18.1."""
    version: str
    is_standby: bool
    is_read_only: bool
    """New transactions may not write, also where this is no standby."""
    is_durable: bool
    """A commit that was confirmed survives a crash."""
    max_connections: int
    """Without the ones kept for superusers."""
    connections: int


@dataclass(frozen=True, slots=True)
class WorkerFact:
    """One process that registered itself."""

    id: str
    node: str
    role: str
    pool: str
    silent_seconds: float


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows were found, and the ids of the first."""

    count: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """A rule that was checked; None: the query took too long."""

    invariant: Invariant
    rows: Rows | None


@contextmanager
def looking(url: str, *, statement_seconds: float = 3.0) -> Generator[Connection]:
    """A read-only transaction over a connection of its own; every query sees the same moment.

    Raises:
        Misconfigured: the server refuses the connection.
        Unavailable: it does not answer, or a query took longer than `statement_seconds`.
    """
    engine = create_engine(
        url,
        poolclass=NullPool,
        connect_args={"connect_timeout": CONNECT_SECONDS, "application_name": "umbel-doctor"},
    )
    try:
        with engine.connect() as connection, connection.begin():
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            limit = f"{int(statement_seconds * 1000)}ms"
            connection.execute(
                text("SELECT set_config('statement_timeout', :limit, true)"), {"limit": limit}
            )
            yield connection
    except OperationalError as error:
        if isinstance(error.orig, psycopg.errors.QueryCanceled):
            raise Unavailable(
                f"PostgreSQL took over {statement_seconds:g} s for a query of `umbel doctor`."
            ) from error
        raise connection_error(error.orig) from error


_SERVER: Final = """
SELECT current_setting('server_version_num')::int AS version_number,
  split_part(current_setting('server_version'), ' ', 1) AS version,
  pg_is_in_recovery() AS is_standby,
  current_setting('default_transaction_read_only')::bool AS is_read_only,
  current_setting('fsync')::bool AND current_setting('synchronous_commit') <> 'off' AS is_durable,
  current_setting('max_connections')::int
    - current_setting('superuser_reserved_connections')::int AS max_connections,
  (SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database)::int AS connections
"""
_DATA_DIRECTORY: Final = "SELECT setting FROM pg_settings WHERE name = 'data_directory'"
_BEATS: Final = """
SELECT count(DISTINCT application_name) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'umbel-beat-%'
"""
_WORKERS: Final = """
SELECT id, node, role, pool, extract(epoch FROM now() - beat_at)::float AS silent_seconds
FROM workers ORDER BY role, node, id
"""
_TOOLS: Final = """
SELECT s.tools, min(s.run_id) AS run_id, count(*) AS runs
FROM runs r JOIN run_specs s ON s.run_id = r.id
WHERE r.status IN ('queued', 'running', 'waiting', 'cancelling', 'paused')
GROUP BY s.tools_sha, s.tools
"""
_TOOLS_HAD: Final = """
SELECT DISTINCT tools FROM workers WHERE queues @> ARRAY['umbel.tools']
  AND beat_at > now() - make_interval(secs => :dead_after)
"""
_DEAD: Final = """
NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = {holder}
  AND w.beat_at > now() - make_interval(secs => :dead_after))
"""
# A row has no time at which it became ready; the newest event of its run tells of that moment.
_LAST_EVENT: Final = """
(SELECT e.at FROM events e WHERE e.run_id = {run} AND e.seq = r.next_seq - 1)
"""
WAITING_RUNS: Final = f"""
SELECT r.id FROM runs r WHERE r.work = 'ready' AND greatest(r.not_before,
  {_LAST_EVENT.format(run="r.id")}) < now() - make_interval(secs => :waiting)
"""  # noqa: S608 - constant text, no input
WAITING_CALLS: Final = f"""
SELECT c.id FROM calls c JOIN runs r ON r.id = c.run_id WHERE c.state = 'ready'
  AND {_LAST_EVENT.format(run="c.run_id")} < now() - make_interval(secs => :waiting)
"""  # noqa: S608 - constant text, no input
HELD_BY_THE_DEAD: Final = f"""
SELECT id FROM runs WHERE work = 'held' AND {_DEAD.format(holder="runs.holder")}
UNION ALL
SELECT id FROM calls WHERE state = 'started' AND {_DEAD.format(holder="calls.holder")}
"""  # noqa: S608 - constant text, no input
PAST_DEADLINE: Final = """
SELECT id FROM calls
WHERE state = 'started' AND deadline_at + interval '10 seconds' < now()
"""
UNKNOWN_OUTCOMES: Final = (
    "SELECT call_id FROM receipts WHERE outcome = 'unknown' AND verified IS NULL"
)
PAUSED: Final = "SELECT reason, count(*) AS runs FROM runs WHERE status = 'paused' GROUP BY reason"
_DEPTH: Final = """
SELECT count(*) FILTER (WHERE work = 'ready') AS ready_runs,
  count(*) FILTER (WHERE work = 'held') AS held_runs,
  count(*) FILTER (WHERE work = 'calls') AS runs_with_calls,
  count(*) FILTER (WHERE status = 'queued') AS queued_runs,
  count(*) FILTER (WHERE status = 'waiting') AS waiting_runs,
  (SELECT count(*) FROM calls WHERE state = 'ready') AS ready_calls
FROM runs WHERE status IN ('queued', 'running', 'waiting', 'cancelling')
"""


def server_facts(connection: Connection) -> ServerFacts:
    """The server at the other end."""
    return ServerFacts(**connection.execute(text(_SERVER)).mappings().one())


def data_directory(connection: Connection) -> str | None:
    """Where the server keeps its data; None: our role may not know."""
    return connection.execute(text(_DATA_DIRECTORY)).scalar_one_or_none()


def connected_beats(connection: Connection) -> int:
    """Beats that hold a connection to this database, whether or not they tick."""
    return int(connection.execute(text(_BEATS)).scalar_one())


def known_workers(connection: Connection) -> list[WorkerFact]:
    """Every registered process, the dead of the last hour included."""
    return [WorkerFact(**row) for row in connection.execute(text(_WORKERS)).mappings()]


def frozen_tools(connection: Connection) -> list[tuple[str, str, int]]:
    """Every distinct set of tools of runs that may go on: JSON text, one run's id, how many."""
    rows = connection.execute(text(_TOOLS)).mappings()
    return [(row["tools"], row["run_id"], row["runs"]) for row in rows]


def tools_of_workers(connection: Connection, *, dead_after: float) -> frozenset[str] | None:
    """Digests of the tools that living tool workers have; None: no such worker lives."""
    rows = connection.execute(text(_TOOLS_HAD), {"dead_after": dead_after}).all()
    return frozenset(digest for row in rows for digest in row.tools) if rows else None


def found_rows(connection: Connection, query: str, **parameters: float) -> Rows:
    """What a query finds; its first column is an id."""
    return _counted(connection, query, parameters)


def paused_runs(connection: Connection) -> dict[str, int]:
    """How many runs are paused, by reason."""
    return {row["reason"]: row["runs"] for row in connection.execute(text(PAUSED)).mappings()}


def depth(connection: Connection) -> dict[str, int]:
    """How many rows are in each stage of work."""
    return dict(connection.execute(text(_DEPTH)).mappings().one())


def is_at_rest(connection: Connection) -> bool:
    """Nothing is being worked on and nothing is due."""
    query = "SELECT NOT EXISTS (SELECT 1 FROM runs WHERE work <> 'none')"
    return bool(connection.execute(text(query)).scalar_one())


def check_invariants(connection: Connection, rules: Sequence[Invariant]) -> list[Counted]:
    """Every rule with the rows that break it."""
    return [Counted(rule, _within_limit(connection, rule)) for rule in rules]


def _within_limit(connection: Connection, rule: Invariant) -> Rows | None:
    try:
        with connection.begin_nested():  # a query that is cut off must not end the transaction
            return _counted(connection, rule.sql, {})
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.errors.QueryCanceled):
            return None
        raise


def _counted(connection: Connection, query: str, parameters: dict[str, Any]) -> Rows:
    counting = f"SELECT count(*) OVER (), found.* FROM ({query}) found LIMIT {_SHOWN}"  # noqa: S608 - queries are constants of ours
    rows = connection.execute(text(counting), parameters).all()
    return Rows(int(rows[0][0]) if rows else 0, tuple(str(row[1]) for row in rows))
