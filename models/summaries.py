"""The beginning of a transcript gives way to a summary: opened, booked, and applied if it holds.

What a summary costs is a fact and booked whatever has become of the run. It is applied only while
the claim holds and nothing has been said or done since the request for it was built.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from loop.shape import Place
from models import hot
from models.database import Database
from models.steps import Claim, Exchange, reply_columns, stands
from umbel.contracts import new_id

SummaryKind = Literal["summary", "trim"]

# A number of its own among the step's attempts: the row is there before anything is paid for.
_OPEN: Final = f"""
WITH r AS (SELECT id, tenant, step, fence FROM runs WHERE {hot.STILL_HELD} FOR UPDATE)
INSERT INTO model_calls (run_id, step, attempt, tenant, fence, holder, purpose, steers)
SELECT r.id, r.step,
  (SELECT max(m.attempt) + 1 FROM model_calls m WHERE m.run_id = r.id AND m.step = r.step),
  r.tenant, r.fence, %(worker)s, 'compact', %(steers)s FROM r
RETURNING attempt
"""  # noqa: S608 - constant text, no input
_BOOK: Final = f"""
UPDATE model_calls m SET {hot.REPLY_COLUMNS}
WHERE m.run_id = %(run_id)s AND m.step = %(step)s AND m.attempt = %(attempt)s
  AND m.purpose = 'compact' AND m.reply IS NULL
"""  # noqa: S608 - constant text, no input
# Asked again after a lost answer it finds its own row, and leaves.
_APPLY: Final = f"""
WITH r AS (
  UPDATE runs SET next_seq = next_seq + 1 WHERE {hot.STILL_HELD} AND steers = %(steers)s
    AND NOT EXISTS (SELECT 1 FROM summaries s WHERE s.id = %(summary)s)
    AND coalesce((SELECT max(s.number) FROM summaries s WHERE s.run_id = runs.id), 0)
      = %(number)s - 1
  RETURNING id, tenant, thread_id, step, fence, next_seq - 1 AS seq),
s AS (
  INSERT INTO summaries (id, tenant, thread_id, run_id, number, previous, step, attempt, kind,
    first_kept_run, first_kept_step, steers, text, unresolved, source_sha)
  SELECT %(summary)s, r.tenant, r.thread_id, r.id, %(number)s, %(previous)s, r.step, %(written_by)s,
    %(kind)s, %(first_kept_run)s, %(first_kept_step)s, %(kept_steers)s, %(text)s, %(unresolved)s,
    %(source_sha)s FROM r)
INSERT INTO events (run_id, seq, kind, ref, data, fence)
SELECT r.id, r.seq, CASE %(kind)s WHEN 'summary' THEN 'context.summarised' ELSE 'context.trimmed'
  END, %(summary)s, jsonb_strip_nulls(jsonb_build_object('step', r.step, 'attempt',
    %(written_by)s::int, 'first_kept_run', %(first_kept_run)s::text, 'first_kept_step',
    %(first_kept_step)s::int, 'cause', %(cause)s::text)), r.fence FROM r
"""  # noqa: S608 - constant text, no input
_FIND: Final = "SELECT id FROM summaries WHERE id = %(summary)s"


@dataclass(frozen=True, slots=True)
class NewSummary:
    """What is to stand for everything before a place."""

    summary_id: str
    number: int
    """Counted per run from 1."""
    previous: str | None
    """The summary that is merged into it."""
    kind: SummaryKind
    first_kept: Place
    steers: int
    text: str
    unresolved: str
    source_sha: bytes | None
    cause: str | None = None
    """Why it is no more than a cut."""

    @staticmethod
    def new_id() -> str:
        """A fresh id."""
        return new_id("sum")


def open_summary_call(database: Database, claim: Claim) -> int | None:
    """Open the row of a request for a summary; its attempt, or None when the claim is over."""
    [rows] = database.run((_OPEN, stands(claim) | {"steers": claim.steers}))
    return rows[0]["attempt"] if rows else None


def book_summary_call(database: Database, claim: Claim, attempt: int, exchange: Exchange) -> None:
    """Book usage and reply of a request for a summary that nothing is made of."""
    _, _ = database.run((hot.LOCK_RUN, stands(claim)), (_BOOK, _booked(claim, attempt, exchange)))


def apply_summary(
    database: Database, claim: Claim, new: NewSummary, asked: tuple[int, Exchange] | None
) -> bool:
    """Let a summary stand in the run's requests; False when the run has moved on.

    Args:
        database: the record.
        claim: under which it was made.
        new: the summary.
        asked: attempt and exchange of the model call it comes from, booked in any case.
    """
    parameters = stands(claim) | {
        "steers": claim.steers,
        "summary": new.summary_id,
        "number": new.number,
        "previous": new.previous,
        "written_by": asked[0] if asked else None,
        "kind": new.kind,
        "first_kept_run": new.first_kept.run_id,
        "first_kept_step": new.first_kept.step,
        "kept_steers": new.steers,
        "text": new.text,
        "unresolved": new.unresolved,
        "source_sha": new.source_sha,
        "cause": new.cause,
    }
    book = [(_BOOK, _booked(claim, *asked))] if asked else []
    *_, found = database.run(
        (hot.LOCK_RUN, parameters), *book, (_APPLY, parameters), (_FIND, parameters)
    )
    return bool(found)


def _booked(claim: Claim, attempt: int, exchange: Exchange) -> dict[str, Any]:
    return stands(claim) | reply_columns(exchange) | {"attempt": attempt}
