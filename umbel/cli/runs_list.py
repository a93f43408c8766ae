"""`umbel runs list`: the runs that are wanted, newest first, a page at a time."""

import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Final, cast

from sqlalchemy import Connection, text

from locks.ownership import OwnershipLocks, connect
from models.listing import MAX_WORDS, RunFilter, list_runs
from models.runs import RunRow
from umbel.cli import exits
from umbel.cli.ending import say
from umbel.cli.json_lines import write_json
from umbel.cli.runs_reading import open_record
from umbel.cli.runs_table import ListedRun, print_list
from umbel.contracts import RunId
from umbel.errors import InvalidInput
from umbel.names import REASONS, RUN_STATUSES, Reason, RunStatus
from umbel.settings import Settings

_AGE: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_MOST_SECONDS: Final = 100 * 366 * 86_400


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
    since, until = _moment("--since", options.since), _moment("--until", options.until)
    if since is not None and until is not None and since >= until:
        raise InvalidInput("--since is not before --until: no run can be in between.")
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
        age_seconds=_age_seconds(options.age),
        words=_words(options.text),
    )


def _checked(what: str, values: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    unknown = next((value for value in values if value not in known), None)
    if unknown is not None:
        alike = get_close_matches(unknown.lower(), known, n=1)
        meant = f" Did you mean {alike[0]}?" if alike else ""
        raise InvalidInput(f"{what} {unknown!r} is none of {', '.join(known)}.{meant}")
    return values


def _moment(option: str, value: str | None) -> datetime | None:
    """A date or a time; without an offset it is UTC."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise InvalidInput(
            f"{option} {value!r} is no time; write 2026-03-01, 2026-03-01T08:30 (UTC) or "
            "2026-03-01T08:30+02:00."
        ) from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _age_seconds(value: str | None) -> float | None:
    if value is None:
        return None
    match = _AGE.fullmatch(value.strip())
    seconds = float(match[1]) * _UNIT_SECONDS[match[2]] if match else 0.0
    if not 0 < seconds <= _MOST_SECONDS:
        raise InvalidInput(
            f"--age {value!r} is no age; write a number and s, m, h, d or w, such as 90s, 2h or 3d."
        )
    return seconds


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
