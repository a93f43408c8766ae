"""`umbel runs list`: the runs that are wanted, newest first, a page at a time."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from sqlalchemy import Connection, text

from locks.ownership import OwnershipLocks, connect
from models.listing import MAX_WORDS, RunFilter, list_runs
from models.runs import RunRow
from umbel.cli import exits
from umbel.cli.ending import say
from umbel.cli.json_lines import write_json
from umbel.cli.runs_reading import open_record
from umbel.cli.runs_table import ListedRun, print_list
from umbel.cli.times import age_seconds, time_range
from umbel.contracts import RunId
from umbel.errors import InvalidInput
from umbel.names import REASONS, RUN_STATUSES, Reason, RunStatus
from umbel.settings import Settings


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What the command line says, as text."""

    statuses: Sequence[str] = ()
    reasons: Sequence[str] = ()
    agent: str | None = None
    owner: str | None = None
    thread: str | None = None
    since: str | None = None
    until: str | None = None
    age: str | None = None
    text: str | None = None
    limit: int = 20
    after: str | None = None


def list_command(options: ListOptions, data: Path | None, *, is_json: bool) -> int:
    """Show one page of runs.

    Raises:
        InvalidInput: a value is none; the message names those that are.
        NotFound: there is no run to list on from.
    """
    wanted = _filter_of(options)
    with open_record(data) as record:
        with record.reading() as connection:
            wanted = replace(wanted, tenant=record.tenant)
            page = list_runs(connection, wanted, limit=options.limit, after=options.after)
            ages = _ages(connection, page.rows)
        locks = _locks(record.settings, page.rows)
    listed = [
        ListedRun(row, age, locks.get(row.run_id)) for row, age in zip(page.rows, ages, strict=True)
    ]
    if is_json:
        for run in listed:
            write_json(sys.stdout, asdict(run.row) | {"lock": run.lock, "age_seconds": run.age})
    else:
        print_list(listed)
    if page.has_more:
        say(f"there are more; add --after {page.rows[-1].run_id} for the next ones")
    return exits.COMPLETED


def _filter_of(options: ListOptions) -> RunFilter:
    if options.age is not None and options.since is not None:
        raise InvalidInput("--age and --since both say how old a run may be; give one of them.")
    since, until = time_range(options.since, options.until)
    return RunFilter(
        statuses=cast(
            "Sequence[RunStatus]", _checked("Status", options.statuses, RUN_STATUSES)
        ),  # checked
        reasons=cast("Sequence[Reason]", _checked("Reason", options.reasons, REASONS)),  # checked
        agent=options.agent,
        owner=options.owner,
        thread_id=options.thread,
        since=since,
        until=until,
        age_seconds=age_seconds(options.age),
        words=_words(options.text),
    )


def _checked(what: str, values: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    unknown = next((value for value in values if value not in known), None)
    if unknown is not None:
        alike = get_close_matches(unknown.lower(), known, n=1)
        meant = f" Did you mean {alike[0]}?" if alike else ""
        raise InvalidInput(f"{what} {unknown!r} is none of {', '.join(known)}.{meant}")
    return values


def _words(value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    words = tuple(value.split())
    if not 0 < len(words) <= MAX_WORDS or "\x00" in value:
        raise InvalidInput(f"--text takes 1 to {MAX_WORDS} words; give those that matter.")
    return words


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
