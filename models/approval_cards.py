"""What an owner is shown before deciding about a call. Reads only."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from models.database import Database, Row
from umbel.contracts import CallId, RunId
from umbel.names import ApprovalWord, CallState, Effect

_CARD: Final = """
SELECT c.id AS call_id, c.run_id, r.tenant, r.owner, c.step, c.position, c.tool, c.tool_version,
  c.effect, c.state, c.args_text, c.args_sha, c.approval_until,
  n.text AS request, m.closed_at AS asked_at, a.word, a.said_by, a.words, a.said_at
FROM calls c JOIN runs r ON r.id = c.run_id
JOIN entries n ON n.run_id = r.id AND n.kind = 'request'
LEFT JOIN model_calls m ON m.run_id = c.run_id AND m.step = c.step AND m.decision = 'dispatch'
LEFT JOIN LATERAL (SELECT * FROM approvals a WHERE a.call_id = c.id
  ORDER BY a.said_at DESC LIMIT 1) a ON true
WHERE c.needs_approval AND (%(tenant)s::text IS NULL OR r.tenant = %(tenant)s)
"""
_ONE: Final = f"{_CARD} AND c.id = %(call_id)s"
_OPEN: Final = f"""
{_CARD} AND c.settled_at IS NULL AND c.state = 'awaiting_approval'
  AND (%(run_id)s::text IS NULL OR c.run_id = %(run_id)s)
ORDER BY c.run_id, c.step, c.position LIMIT %(limit)s
"""

# Since the owner's last word: results of tools that anybody may have written into, and the words of
# others. Results of this very step are not known to the model yet; those of the last step that had
# not heard the word may have come after it was said.
_LAST_WORD: Final = """
SELECT coalesce(max(m.step), 0) AS step FROM model_calls m
WHERE m.run_id = %(run_id)s AND m.decision IS NOT NULL AND m.step < %(step)s AND m.steers < (
  SELECT coalesce(max(s.rev), 0) FROM steers s JOIN runs r ON r.id = s.run_id
  WHERE s.run_id = %(run_id)s AND s.author = r.owner AND s.state = 'applied')
"""
_TRUSTED: Final = "coalesce((f.value ->> 'trusted')::bool, false)"
_FORM: Final = """
JOIN run_specs p ON p.run_id = c.run_id
LEFT JOIN LATERAL (SELECT t.value FROM jsonb_array_elements(p.tools::jsonb) t
  WHERE t.value ->> 'name' = c.tool LIMIT 1) f ON true
"""
"""The tool of a call, as its run was accepted with it."""
_RESULTS: Final = f"""
SELECT c.id AS source, c.step, c.tool, e.total_chars AS chars, {_TRUSTED} AS is_trusted
FROM calls c JOIN evidence e ON e.call_id = c.id {_FORM}
WHERE c.run_id = %(run_id)s AND c.attempt > 0
  AND (c.step < %(step)s OR (c.step = %(step)s AND c.refreshes IS NOT NULL))
ORDER BY c.step, c.position
"""  # noqa: S608 - constant text, no input
# A run also knows the runs of its thread before it, as they were when it began. One that was queued
# was asked for before they read what its owner had not seen by then.
_BEFORE: Final = """
WITH w AS (
  SELECT r.id, r.thread_id, r.owner, greatest(n.created_at, (
      SELECT max(s.created_at) FROM steers s
      WHERE s.run_id = r.id AND s.author = r.owner AND s.state = 'applied')) AS said_at,
    (SELECT m.opened_at FROM model_calls m
      WHERE m.run_id = r.id AND m.step = 1 AND m.attempt = 1) AS began_at
  FROM runs r JOIN entries n ON n.run_id = r.id AND n.kind = 'request'
  WHERE r.id = %(run_id)s)
"""
_RESULTS_BEFORE: Final = f"""
{_BEFORE}
SELECT c.id AS source, c.run_id, c.step, c.tool, e.total_chars AS chars, {_TRUSTED} AS is_trusted
FROM w JOIN runs o ON o.thread_id = w.thread_id AND o.id <> w.id
JOIN calls c ON c.run_id = o.id AND c.attempt > 0 JOIN evidence e ON e.call_id = c.id
{_FORM}
WHERE e.stored_at > w.said_at AND e.stored_at < w.began_at
ORDER BY e.stored_at, c.id
"""  # noqa: S608 - constant text, no input
_OTHERS_BEFORE: Final = f"""
{_BEFORE}
SELECT s.id AS source, s.run_id, s.author, length(s.text) AS chars
FROM w JOIN runs o ON o.thread_id = w.thread_id AND o.id <> w.id JOIN steers s ON s.run_id = o.id
WHERE s.author <> w.owner AND s.state = 'applied' AND s.created_at > w.said_at
  AND s.created_at < w.began_at
ORDER BY s.created_at, s.id
"""  # noqa: S608 - constant text, no input
_OTHERS: Final = """
SELECT s.id AS source, s.author, length(s.text) AS chars, s.rev FROM steers s
JOIN runs r ON r.id = s.run_id
WHERE s.run_id = %(run_id)s AND s.author <> r.owner AND s.state = 'applied' AND s.rev > (
  SELECT coalesce(max(o.rev), 0) FROM steers o
  WHERE o.run_id = s.run_id AND o.author = r.owner AND o.state = 'applied')
ORDER BY s.rev
"""


# Whatever the owner has said since: they are shown in every request.
_GIVEN: Final = """
SELECT DISTINCT ON (g.place) g.source, g.author, length(g.text) AS chars
FROM given_sources g JOIN runs r ON r.id = g.run_id
WHERE g.run_id = %(run_id)s AND g.author <> r.owner AND g.text IS NOT NULL
ORDER BY g.place, g.source_rev DESC
"""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where text entered that neither the owner nor their own code wrote."""

    source: str
    """Evidence handle, the id of the correction, or the name of a source."""
    what: str
    """`tool NAME of step N`, `correction of USER` or `source of AUTHOR`; ` of RUN`: earlier."""
    chars: int


@dataclass(frozen=True, slots=True)
class Card:
    """A call that asks, or asked, for its owner's approval."""

    call_id: CallId
    run_id: RunId
    tenant: str
    owner: str
    step: int
    position: int
    tool: str
    tool_version: str
    effect: Effect
    state: CallState
    args_text: str
    """Exactly the bytes that are hashed, approved and sent."""
    sha256: str
    """Of the bytes, in hexadecimal."""
    asked_at: datetime | None
    until: datetime | None
    """When time to decide, or once granted to start, runs out; None: never."""
    request: str
    """What the owner asked for at first."""
    word: ApprovalWord | None
    """The last that was said about it."""
    said_by: str | None
    words: str | None
    origins: tuple[Origin, ...] = ()
    """Since the owner's last word to this run; empty in lists."""


def open_cards(
    database: Database, *, tenant: str | None, run_id: RunId | None = None, limit: int = 100
) -> list[Card]:
    """Calls that wait for their owner now, those of a step together."""
    [rows] = database.run((_OPEN, {"tenant": tenant, "run_id": run_id, "limit": limit}))
    return [_card_of(row) for row in rows]


def find_card(database: Database, call_id: str, *, tenant: str | None) -> Card | None:
    """One call that asks or asked, with what its owner should know."""
    [rows] = database.run((_ONE, {"tenant": tenant, "call_id": call_id}))
    if not rows:
        return None
    asked = {"run_id": rows[0]["run_id"], "step": rows[0]["step"]}
    statements = (_RESULTS_BEFORE, _OTHERS_BEFORE, _LAST_WORD, _RESULTS, _OTHERS, _GIVEN)
    before, others_before, last, results, others, given = database.run(
        *((statement, asked) for statement in statements)
    )
    origins = [
        *_of_tools(before),
        *_of_others(others_before),
        *_of_tools(row for row in results if row["step"] >= last[0]["step"]),
        *_of_others(others),
        *(Origin(row["source"], f"source of {row['author']}", row["chars"]) for row in given),
    ]
    return _card_of(rows[0], tuple(origins))


def _of_tools(results: Iterable[Row]) -> Iterator[Origin]:
    for row in results:
        if not row["is_trusted"]:
            what = f"tool {row['tool']} of step {row['step']}{_of_run(row)}"
            yield Origin(row["source"], what, row["chars"])


def _of_others(corrections: Iterable[Row]) -> Iterator[Origin]:
    for row in corrections:
        what = f"correction of {row['author']}{_of_run(row)}"
        yield Origin(row["source"], what, row["chars"])


def _of_run(row: Row) -> str:
    return f" of {row['run_id']}" if "run_id" in row else ""


def _card_of(row: Row, origins: tuple[Origin, ...] = ()) -> Card:
    return Card(
        call_id=CallId(row["call_id"]),
        run_id=RunId(row["run_id"]),
        tenant=row["tenant"],
        owner=row["owner"],
        step=row["step"],
        position=row["position"],
        tool=row["tool"],
        tool_version=row["tool_version"],
        effect=row["effect"],
        state=row["state"],
        args_text=row["args_text"],
        sha256=bytes(row["args_sha"]).hex(),
        asked_at=row["asked_at"],
        until=row["approval_until"],
        request=row["request"],
        word=row["word"],
        said_by=row["said_by"],
        words=row["words"],
        origins=origins,
    )
