"""What the database says about a run, as the comparison of a case reads it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from models.database import Database, Row

_RUN: Final = """
SELECT r.status, r.reason, r.detail, r.work, r.step, r.fence, r.answer, r.open_calls, r.unknowns,
  r.next_seq, r.accepted_at, r.settled_at, r.owner
FROM runs r WHERE r.id = %(run_id)s
"""
_STEERS: Final = """
SELECT rev, author, mode, text, state FROM steers WHERE run_id = %(run_id)s ORDER BY rev
"""
_MODEL_CALLS: Final = """
SELECT step, attempt, steers, purpose, state, decision, reply::jsonb AS reply, error_class,
  input_tokens, output_tokens, is_estimated, opened_at, closed_at
FROM model_calls WHERE run_id = %(run_id)s ORDER BY step, attempt
"""
_CALLS: Final = """
SELECT c.id, c.model_id, c.step, c.position, c.tool, c.effect, c.state, c.args_text, c.attempt,
  c.started_at, c.settled_at, e.view, e.total_chars, x.outcome, x.args_text AS receipt_args,
  x.call_id IS NOT NULL AS has_receipt, x.is_late, x.verified,
  coalesce(e.body, (SELECT string_agg(b.body, '' ORDER BY b.start_char) FROM evidence_chunks b
    WHERE b.capture_id = e.capture_id)) AS body,
  (SELECT count(*) FROM pictures p WHERE p.capture_id = e.capture_id) AS pictures
FROM calls c LEFT JOIN evidence e ON e.call_id = c.id LEFT JOIN receipts x ON x.call_id = c.id
WHERE c.run_id = %(run_id)s AND c.refreshes IS NULL ORDER BY c.step, c.position
"""
_EVENTS: Final = """
SELECT seq, kind, ref, data, fence, at FROM events WHERE run_id = %(run_id)s ORDER BY seq
"""
_ENTRIES: Final = """
SELECT kind, text, created_at FROM entries WHERE run_id = %(run_id)s ORDER BY id
"""
_DELIVERIES: Final = """
SELECT id, destination, kind, state, body, external_id, delivered_at
FROM deliveries WHERE run_id = %(run_id)s ORDER BY id
"""
# A refresh is the call that the model made, once more.
_SUMMARIES: Final = """
SELECT number, kind, step, first_kept_run, first_kept_step FROM summaries
WHERE run_id = %(run_id)s ORDER BY number
"""
_CALL: Final = """
SELECT coalesce(o.model_id, c.model_id) AS model_id
FROM calls c LEFT JOIN calls o ON o.id = c.refreshes WHERE c.id = %(call_id)s
"""
_WORKING: Final = """
SELECT DISTINCT w.pid FROM workers w WHERE w.id IN (
  SELECT holder FROM runs WHERE id = %(run_id)s
  UNION ALL SELECT holder FROM calls WHERE run_id = %(run_id)s AND state = 'started')
"""


@dataclass(frozen=True, slots=True)
class Record:
    """A run with everything that belongs to it."""

    run: Row
    model_calls: list[Row]
    calls: list[Row]
    events: list[Row]
    entries: list[Row]
    deliveries: list[Row]
    steers: list[Row]
    summaries: list[Row] = field(default_factory=list)

    def call(self, case_id: str) -> Row | None:
        """The call the model gave this id."""
        return next((call for call in self.calls if call["model_id"] == case_id), None)

    @property
    def seconds(self) -> float:
        """From acceptance to the end."""
        ended: datetime | None = self.run["settled_at"]
        accepted: datetime = self.run["accepted_at"]
        return (ended - accepted).total_seconds() if ended else float("inf")


def read_record(database: Database, run_id: str) -> Record:
    """Everything about a run, in one snapshot per table."""
    asked = {"run_id": run_id}
    runs, *tables = database.run(
        (_RUN, asked),
        (_MODEL_CALLS, asked),
        (_CALLS, asked),
        (_EVENTS, asked),
        (_ENTRIES, asked),
        (_DELIVERIES, asked),
        (_STEERS, asked),
        (_SUMMARIES, asked),
    )
    return Record(runs[0], *tables)


def read_status(database: Database, run_id: str) -> tuple[str, str | None]:
    """Status and reason of a run, in the words of the case format."""
    [rows] = database.run((_RUN, {"run_id": run_id}))
    return case_status(rows[0]["status"], rows[0]["reason"])


def case_status(status: str, reason: str | None) -> tuple[str, str | None]:
    """The case format knows no `waiting`: for it, waiting for an approval is a pause."""
    if (status, reason) == ("waiting", "approval_required"):
        return "paused", reason
    return status, reason


def case_id_of_call(database: Database, call_id: str) -> str:
    """The id the model gave a call."""
    [rows] = database.run((_CALL, {"call_id": call_id}))
    return str(rows[0]["model_id"])


def deliveries_of(database: Database, run_id: str) -> list[dict[str, Any]]:
    """The messages a run has sent."""
    [rows] = database.run((_DELIVERIES, {"run_id": run_id}))
    return rows


def pids_at_work(database: Database, run_id: str) -> list[int]:
    """The processes that hold the run or one of its calls now."""
    [rows] = database.run((_WORKING, {"run_id": run_id}))
    return [row["pid"] for row in rows]
