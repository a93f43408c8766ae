"""Texts that are given to a run beside its request, and what requests show of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection, select, text

from loop.gaps import gap, given_text
from loop.transcript import RunRecord
from models.database import Row
from models.input_checks import check_input, check_storable
from models.tables import given_sources
from umbel.contracts import RunId
from umbel.errors import InvalidInput
from umbel.source_name import GivenSource, parse_source

MAX_GIVEN: Final = 100
_MAX_AUTHOR_CHARS: Final = 200

_GIVE: Final = text("""
INSERT INTO given_sources
  (run_id, source, source_rev, tenant, thread_id, place, author, text, seen_seq, step)
SELECT r.id, :source, 0, r.tenant, r.thread_id, :place, :author, :text, coalesce(s.seq, 0), r.step
FROM runs r LEFT JOIN sources s ON s.tenant = r.tenant AND s.source = :source WHERE r.id = :run_id
""")

# As it was shown: of the run itself by its source revision, of the thread's other runs as they were
# when this one began.
GIVEN: Final = """
SELECT DISTINCT ON (g.run_id, g.place) g.run_id, g.source, g.author, g.text, g.gap, g.reason
FROM given_sources g WHERE g.thread_id = %(thread_id)s
  AND CASE WHEN g.run_id = %(run_id)s THEN g.source_rev <= %(source_rev)s
    ELSE g.given_at < (SELECT m.opened_at FROM model_calls m
      WHERE m.run_id = %(run_id)s AND m.step = 1 AND m.attempt = 1) END
ORDER BY g.run_id, g.place, g.source_rev DESC
"""


def check_given(given: Sequence[GivenSource]) -> None:
    """Refuse what cannot be kept, or names a source twice.

    Raises:
        InvalidInput: with what it is.
    """
    if len(given) > MAX_GIVEN or len({one.source for one in given}) < len(given):
        raise InvalidInput(f"A request takes up to {MAX_GIVEN} sources, each named once.")
    for one in given:
        parse_source(one.source)
        check_input(one.text)
        check_storable("The author of a source", one.author)
        if len(one.author) > _MAX_AUTHOR_CHARS:
            raise InvalidInput(f"An author has up to {_MAX_AUTHOR_CHARS} characters.")


def give_sources(connection: Connection, run_id: RunId, given: Sequence[GivenSource]) -> None:
    """Write down what a run is given with its request, in its transaction."""
    for place, one in enumerate(given, start=1):
        row = {"source": one.source, "author": one.author, "text": one.text}
        connection.execute(_GIVE, row | {"run_id": run_id, "place": place})


def given_at_first(connection: Connection, run_id: RunId) -> tuple[GivenSource, ...]:
    """What a run was given when it was accepted."""
    query = (
        select(given_sources.c.source, given_sources.c.author, given_sources.c.text)
        .where(given_sources.c.run_id == run_id, given_sources.c.source_rev == 0)
        .order_by(given_sources.c.place)
    )
    return tuple(GivenSource(*row) for row in connection.execute(query))


def with_given(record: RunRecord, rows: list[Row]) -> RunRecord:
    """The record with the rows of GIVEN, each run's before its request."""
    beside: dict[str, tuple[str, ...]] = {}
    for row in rows:
        beside[row["run_id"]] = (*beside.get(row["run_id"], ()), _shown(row))
    earlier = (
        replace(run, requests=beside.get(run.run_id, ()) + run.requests) for run in record.earlier
    )
    own = beside.get(record.run_id, ()) + record.requests
    return replace(record, requests=own, earlier=tuple(earlier))


def _shown(row: Row) -> str:
    if row["text"] is None:
        return gap([row["source"]], row["gap"], row["reason"])
    return given_text(row["source"], row["author"], row["text"])
