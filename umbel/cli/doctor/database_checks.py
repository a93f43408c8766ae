"""PostgreSQL, where the truth is: the server, and the tables in it."""

import time
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, make_url, text

from models.diagnosis import ServerFacts, looking, server_facts
from models.migration import OLDEST_POSTGRES, check
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding, ok, problem, warning, worst
from umbel.cli.doctor.own_servers import own_server_remedy
from umbel.errors import Unavailable
from umbel.settings import Settings
from umbel.settings_faults import without_password

_SHOWN: Final = 3
_TRIPS: Final = 3
"""The quickest counts: other checks run beside this one."""
_SLOW_MS: Final = 50.0
_NEARLY_FULL: Final = 0.9
_OF_A_CHILD: Final = 2
"""A pool child carries one call, and compares itself with the record beside it."""
_OF_A_WORKER: Final = 3
"""Beside what its children or its pool have: its heartbeat, and two for metrics."""
_OF_A_BEAT: Final = 2


def look_at_database(context: Context) -> Finding:
    """The server: there, new enough, writable, durable, with room for every worker."""
    url = context.settings.database_url
    if url is None:
        return problem(
            "database",
            "no address is set, and no system runs here",
            "Set UMBEL_DATABASE_URL=postgresql://user:password@host/database, or start `umbel up`.",
        ).blocking()
    try:
        with looking(url) as connection:
            facts = server_facts(connection)
            latency_ms = min(_round_trip_ms(connection) for _ in range(_TRIPS))
    except Unavailable as error:
        remedy = own_server_remedy(context, "postgres", _socket_of(url)) or (
            "Start PostgreSQL, or correct host and port in UMBEL_DATABASE_URL."
        )
        return problem("database", f"{str(error).rstrip('.')} ({_shown(url)})", remedy).blocking()
    found = f"PostgreSQL {facts.version} at {_shown(url)}, {latency_ms:.1f} ms"
    concerns = [*_writing(facts), *_room(facts, context.settings), *_slowness(latency_ms)]
    return worst(
        "database",
        found,
        concerns,
        version=facts.version,
        latency_ms=round(latency_ms, 2),
        connections=facts.connections,
        max_connections=facts.max_connections,
    )


def look_at_migrations(context: Context) -> Finding:
    """The tables: of this version, and none of them changed by hand."""
    result = check(context.database_url)
    revisions = {"current": result.current, "head": result.head}
    if not result.is_current:
        state = f"at {result.current}" if result.current else "no tables of Umbel"
        return problem(
            "migrations",
            f"behind: {state}, this version needs {result.head}",
            "Run `umbel db migrate`.",
            **revisions,
        ).blocking()
    if result.differences:
        return problem(
            "migrations",
            f"at {result.head}, but different: {_listed(result.differences)}",
            "Undo what was changed by hand; `umbel db check` lists every difference.",
            **revisions,
            differences=list(result.differences),
        )
    return ok("migrations", f"current: {result.head}", **revisions)


def _socket_of(url: str) -> str:
    query = make_url(url).query
    return f"{query.get('host', '')}/.s.PGSQL.{query.get('port', '5432')}"


def _shown(url: str) -> str:
    return without_password(url).replace("+psycopg", "", 1)


def _listed(differences: Sequence[str]) -> str:
    more = len(differences) - _SHOWN
    return ", ".join(differences[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _writing(facts: ServerFacts) -> list[Finding]:
    concerns: list[Finding] = []
    if facts.version_number < OLDEST_POSTGRES * 10_000:
        remedy = f"Upgrade PostgreSQL to {OLDEST_POSTGRES} or newer."
        concerns.append(problem("database", "too old", remedy).blocking())
    if facts.is_standby:
        remedy = "Point UMBEL_DATABASE_URL at the primary, or promote this server."
        concerns.append(problem("database", "a standby, read-only", remedy))
    elif facts.is_read_only:
        remedy = "Run `ALTER DATABASE … RESET default_transaction_read_only`, or as ALTER ROLE."
        concerns.append(problem("database", "read-only by default", remedy))
    if not facts.is_durable:
        remedy = (
            "Set fsync and synchronous_commit to on: a change whose record is lost in a crash "
            "may be sent twice."
        )
        concerns.append(problem("database", "commits may be lost in a crash", remedy))
    return concerns


def _room(facts: ServerFacts, settings: Settings) -> list[Finding]:
    used = f"{facts.connections} of {facts.max_connections} connections are taken"
    if facts.connections >= facts.max_connections * _NEARLY_FULL:
        remedy = "Raise max_connections, or lower UMBEL_POOL_SIZE and the number of workers."
        return [warning("database", used, remedy)]
    wanted = connections_wanted(settings)
    if wanted <= facts.max_connections:
        return []
    return [
        warning(
            "database",
            f"one worker of each kind may need {wanted} connections, {facts.max_connections} exist",
            f"Set max_connections to {wanted + 10} or more, or lower UMBEL_POOL_SIZE or "
            "UMBEL_TOOL_CONCURRENCY.",
        )
    ]


def connections_wanted(settings: Settings) -> int:
    """What one step, one tool and one control worker with two beats open at most.

    The formula is that of docs/operations.md, "PostgreSQL connections".
    """
    children = settings.tool_concurrency + settings.control_concurrency
    of_pools = settings.pool_size + children * min(settings.pool_size, _OF_A_CHILD)
    return of_pools + 3 * _OF_A_WORKER + 2 * _OF_A_BEAT


def _slowness(latency_ms: float) -> list[Finding]:
    if latency_ms <= _SLOW_MS:
        return []
    remedy = "Run workers near the database: a step takes several round trips."
    return [warning("database", "far away", remedy)]


def _round_trip_ms(connection: Connection) -> float:
    began = time.monotonic()
    connection.execute(text("SELECT 1"))
    return (time.monotonic() - began) * 1000
