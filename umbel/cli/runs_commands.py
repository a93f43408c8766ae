"""`umbel runs list|get|steps`: reads the record, changes nothing."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final, cast

from sqlalchemy import Connection, text

from locks.ownership import OwnershipLocks, connect
from models.database import Database
from models.runs import RunRow, find_run
from models.runs import list_runs as newest_runs
from models.showing import attempts_of, calls_of
from umbel.cli import exits, runs_text
from umbel.cli.json_lines import write_json
from umbel.cli.places import database_for_reading
from umbel.cli.runs_text import ListedRun
from umbel.contracts import RunId
from umbel.errors import InvalidInput, NotFound
from umbel.names import RUN_STATUSES, RunStatus
from umbel.settings import Settings, load_settings

_LEAST_PREFIX: Final = 5


def list_command(statuses: Sequence[str], limit: int, data: Path | None, *, is_json: bool) -> int:
    """Show the newest runs of the settings' tenant."""
    unknown = [status for status in statuses if status not in RUN_STATUSES]
    if unknown:
        raise InvalidInput(f"Status {unknown[0]!r} is none of {', '.join(RUN_STATUSES)}.")
    settings = load_settings()
    with _reading(data) as connection:
        rows = newest_runs(
            connection,
            tenant=settings.tenant if data is None else None,
            statuses=cast("Sequence[RunStatus]", statuses),  # checked above
            limit=limit,
        )
        ages = _ages(connection, rows)
    locks = _locks(settings, rows) if data is None else {}
    listed = [
        ListedRun(row, age, locks.get(row.run_id)) for row, age in zip(rows, ages, strict=True)
    ]
    if is_json:
        for run in listed:
            write_json(sys.stdout, _run_facts(run.row) | {"lock": run.lock, "age_seconds": run.age})
    else:
        runs_text.print_list(listed)
    return exits.COMPLETED


def get_command(run: str, data: Path | None, *, is_json: bool) -> int:
    """Show one run with its calls."""
    with _reading(data) as connection:
        row = _find(connection, run)
        calls = calls_of(connection, row.run_id)
        attempts = attempts_of(connection, row.run_id)
    if is_json:
        write_json(sys.stdout, _run_facts(row) | {"calls_made": [asdict(call) for call in calls]})
    else:
        runs_text.print_run(row, calls, attempts, load_settings().model_settings(row.model))
    return exits.COMPLETED


def steps_command(run: str, data: Path | None, *, is_json: bool) -> int:
    """Show every step of one run."""
    with _reading(data) as connection:
        row = _find(connection, run)
        calls = calls_of(connection, row.run_id)
        attempts = attempts_of(connection, row.run_id)
    if is_json:
        for step in sorted({attempt.step for attempt in attempts}):
            facts = {
                "run_id": row.run_id,
                "step": step,
                "attempts": [
                    asdict(a) | {"seconds": a.seconds} for a in attempts if a.step == step
                ],
                "calls": [asdict(c) | {"seconds": c.seconds} for c in calls if c.step == step],
            }
            write_json(sys.stdout, facts)
    else:
        runs_text.print_steps(row, attempts, calls)
    return exits.COMPLETED


@contextmanager
def _reading(data: Path | None) -> Generator[Connection]:
    """A read-only transaction: whatever a command does, it changes nothing."""
    with database_for_reading(data) as url:
        database = Database(url, role="cli", pool_size=1)
        try:
            with database.begin() as connection:
                connection.execute(text("SET TRANSACTION READ ONLY"))
                yield connection
        finally:
            database.close()


def _find(connection: Connection, run: str) -> RunRow:
    row = find_run(connection, run) if len(run) >= _LEAST_PREFIX else None
    if row is None:
        raise NotFound(f"There is no single run {run!r}; `umbel runs list` shows the ids.")
    return row


def _ages(connection: Connection, rows: Sequence[RunRow]) -> list[float]:
    """Seconds since each run was accepted, by the database's clock."""
    now = connection.execute(text("SELECT now()")).scalar_one()
    return [(now - row.accepted_at).total_seconds() for row in rows]


def _locks(settings: Settings, rows: Sequence[RunRow]) -> dict[RunId, str]:
    """Who holds the lock of each run in Redis; empty when it does not answer or is not set."""
    if settings.redis_url is None:
        return {}
    with connect(settings.redis_url, role="cli", max_connections=2) as client:
        locks = OwnershipLocks(client, prefix=settings.redis_prefix, ttl_seconds=1)
        return locks.holders(row.run_id for row in rows)


def _run_facts(row: RunRow) -> dict[str, object]:
    return asdict(row)
