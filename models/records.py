"""The record of a run: its frozen specification, and what its next request is built from."""

import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Final

from loop.budget import USUAL_OUTPUT_RESERVE, USUAL_WINDOW
from loop.cutting import kept_from
from loop.policy import Policy
from loop.shape import SHORT_CHARS, WHOLE, Place, Shape
from loop.transcript import RecordedRun, RecordedSummary, RunRecord, offered_tools
from models import earlier_runs, hot_refresh
from models.database import Database, Row
from models.given import GIVEN, with_given
from models.recorded import PICTURES, Corrections, recorded_steps
from models.refreshed import Shown, refreshed, with_refreshed
from models.schema import parse_stored
from umbel.contracts import RunId, ThreadId
from umbel.errors import ContractMismatch, InvariantBroken
from umbel.names import WireName

_SPEC: Final = """
SELECT s.run_id, r.thread_id, s.model, s.wire, s.instructions, s.policy,
  encode(s.policy_sha, 'hex') AS policy_sha, s.tools, encode(s.tools_sha, 'hex') AS tools_sha,
  s.workspace, s.agent, s.traceparent, r.policy_rev, s.window_tokens, s.reserve_tokens,
  s.takes_pictures,
  EXISTS (SELECT 1 FROM entries e WHERE e.thread_id = r.thread_id AND e.run_id <> r.id)
    AS has_company,
  EXISTS (SELECT 1 FROM evidence_sources x WHERE x.thread_id = r.thread_id AND x.run_id <> r.id)
    OR EXISTS (SELECT 1 FROM given_sources g WHERE g.thread_id = r.thread_id) AS has_sources
FROM run_specs s JOIN runs r ON r.id = s.run_id WHERE s.run_id = %(run_id)s
"""
_REQUEST: Final = """
SELECT manifest, request_sha FROM model_calls
WHERE run_id = %(run_id)s AND step = %(step)s AND attempt = %(attempt)s AND manifest IS NOT NULL
"""
_SENT_ATTEMPT: Final = """
SELECT attempt FROM model_calls
WHERE run_id = %(run_id)s AND step = %(step)s AND purpose = 'main' AND manifest IS NOT NULL
ORDER BY decision IS NOT DISTINCT FROM 'dispatch' OR decision IS NOT DISTINCT FROM 'answer' DESC,
  attempt DESC LIMIT 1
"""
_ENTRIES: Final = """
SELECT text FROM entries WHERE run_id = %(run_id)s AND kind = 'request' ORDER BY id
"""
_STEERS: Final = """
SELECT rev, text FROM steers
WHERE run_id = %(run_id)s AND rev <= %(steers)s AND state <> 'returned' ORDER BY rev
"""
_REPLIES: Final = """
SELECT step, endpoint, reply, steers FROM model_calls
WHERE run_id = %(run_id)s AND step >= %(first_step)s AND step < %(step)s
  AND decision = 'dispatch' ORDER BY step
"""
# What a request only names is not read: a step of a long run reads no more than one of a short one.
_RESULTS: Final = f"""
SELECT c.id, c.step, c.tool, c.args_text, CASE
  WHEN c.step >= %(pruned_step)s OR length(e.view) <= {SHORT_CHARS} THEN e.view
  WHEN e.call_id IS NOT NULL THEN '' END AS view,
  {PICTURES.format(condition="%(takes_pictures)s AND c.step >= %(pruned_step)s", evidence="e")}
FROM calls c LEFT JOIN evidence e ON e.call_id = c.id
WHERE c.run_id = %(run_id)s AND c.step >= %(first_step)s AND c.step < %(step)s
  AND c.refreshes IS NULL
ORDER BY c.step, c.position
"""  # noqa: S608 - constant text, no input
_SUMMARY: Final = """
SELECT text, unresolved, steers FROM summaries
WHERE id = %(summary)s AND thread_id = %(thread_id)s
"""

_COMPANY: Final = (
    earlier_runs.REQUESTS,
    earlier_runs.REPLIES,
    earlier_runs.RESULTS,
    earlier_runs.STEERS,
)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What was frozen into the run, with its limits as they are; a process may keep it."""

    run_id: RunId
    thread_id: ThreadId
    model: str
    wire: WireName
    instructions: str
    policy: Policy
    policy_sha: str
    tools: tuple[dict[str, Any], ...]
    tools_sha: str
    workspace: str | None
    agent: str = "default"
    traceparent: str | None = None
    """The caller's place in a trace."""
    policy_rev: int = 0
    """Times that a resume has set other limits in the policy."""
    window_tokens: int = USUAL_WINDOW
    """What the model takes and gives in one call, as it was known at acceptance."""
    reserve_tokens: int = USUAL_OUTPUT_RESERVE
    """Part of it that is kept for the answer."""
    takes_pictures: bool = False
    """Whether its model does; else they are only named."""
    has_company: bool = False
    """Its thread had other runs when this was read: those before it are part of its record."""
    has_sources: bool = False
    """Its thread was given texts beside a request, or results of other runs rest on sources."""

    def tool(self, name: str) -> dict[str, Any] | None:
        """The frozen form of one offered tool."""
        return next((tool for tool in self.tools if tool["name"] == name), None)


class SpecCache:
    """The specifications this process used last."""

    def __init__(self, database: Database, size: int = 512) -> None:
        self._database = database
        self._size = size
        self._specs: OrderedDict[RunId, RunSpec] = OrderedDict()
        self._lock = Lock()

    def get(self, run_id: RunId, policy_rev: int = 0) -> RunSpec:
        """The specification of a run, with this revision of its policy or a later one.

        Raises:
            InvariantBroken: the run has none, or it does not parse.
        """
        with self._lock:
            spec = self._specs.get(run_id)
        if spec is None or spec.policy_rev < policy_rev:
            spec = load_spec(self._database, run_id)
            with self._lock:
                self._specs[run_id] = spec
                while len(self._specs) > self._size:
                    self._specs.popitem(last=False)
        return spec


def load_spec(database: Database, run_id: RunId) -> RunSpec:
    """The specification of a run, read anew; a worker uses its `SpecCache`.

    Raises:
        ContractMismatch: policy or tools are not what their hash says.
        InvariantBroken: the run has none, or it does not parse.
    """
    [rows] = database.run((_SPEC, {"run_id": run_id}))
    if not rows:
        raise InvariantBroken(f"The run {run_id!r} has no specification.")
    row = rows[0]
    for name in ("policy", "tools"):
        if hashlib.sha256(row[name].encode()).hexdigest() != row[f"{name}_sha"]:
            raise ContractMismatch(
                f"What run {run_id!r} was accepted with has been changed: the SHA-256 of its "
                f"{name} differs. Restore its row of run_specs from a backup, or start it anew."
            )
    return RunSpec(
        run_id=run_id,
        thread_id=ThreadId(row["thread_id"]),
        model=row["model"],
        wire=row["wire"],
        instructions=row["instructions"],
        policy=parse_stored(Policy, row["policy"]),
        policy_sha=row["policy_sha"],
        tools=tuple(json.loads(row["tools"])),
        tools_sha=row["tools_sha"],
        workspace=row["workspace"],
        agent=row["agent"],
        traceparent=row["traceparent"],
        policy_rev=row["policy_rev"],
        window_tokens=row["window_tokens"],
        reserve_tokens=row["reserve_tokens"],
        takes_pictures=row["takes_pictures"],
        has_company=row["has_company"],
        has_sources=row["has_sources"],
    )


@dataclass(frozen=True, slots=True)
class SentRequest:
    """What is kept of a request that was sent."""

    manifest: str
    request_sha: bytes


def load_sent_request(
    database: Database, run_id: RunId, step: int, attempt: int
) -> SentRequest | None:
    """What an attempt sent; None if it never recorded a reply."""
    parameters = {"run_id": run_id, "step": step, "attempt": attempt}
    [rows] = database.run((_REQUEST, parameters))
    return SentRequest(rows[0]["manifest"], bytes(rows[0]["request_sha"])) if rows else None


def find_sent_attempt(database: Database, run_id: RunId, step: int) -> int | None:
    """The attempt whose reply a step was decided from, else its latest; None: none is recorded."""
    [rows] = database.run((_SENT_ATTEMPT, {"run_id": run_id, "step": step}))
    return rows[0]["attempt"] if rows else None


def load_record(
    database: Database,
    spec: RunSpec,
    step: int,
    steers: int = 0,
    shape: Shape = WHOLE,
    source_rev: int = 0,
) -> RunRecord:
    """Everything the request of `step` is built from: the steps before it, all settled.

    Of the corrections it holds the first `steers`, each before the first reply that heard of it. Of
    results that were read again it holds the newest up to `source_rev`. A run that is not its
    thread's first knows the ones before it. What the shape leaves out is not in it, and mostly not
    read.

    Raises:
        InvariantBroken: a call of an earlier step has no result, a stored reply does not parse, or
            the shape's summary is gone.
    """
    is_alone = shape.first_kept is not None and shape.first_kept.run_id == spec.run_id
    parameters = {
        "run_id": spec.run_id,
        "thread_id": spec.thread_id,
        "step": step,
        "steers": steers,
        "first_step": _step_in(spec.run_id, shape.first_kept),
        "pruned_step": _step_in(spec.run_id, shape.pruned_before),
        "summary": shape.summary,
        "takes_pictures": spec.takes_pictures,
        "source_rev": source_rev,
    }
    statements = [_ENTRIES, _REPLIES, _RESULTS, _STEERS, _SUMMARY]
    if spec.has_company and not is_alone:
        statements += _COMPANY
    is_sourced = source_rev > 0 or spec.has_sources
    if is_sourced:
        statements += [hot_refresh.SHOWN, GIVEN]
    found = database.run(*((statement, parameters) for statement in statements))
    given = found.pop() if is_sourced else []
    shown = refreshed(found.pop()) if is_sourced else {}
    requests, replies, results, corrected, summarised, *company = found
    for row in results:
        if row["view"] is None:
            raise InvariantBroken(f"The call {row['id']!r} has no result, yet its step is over.")
    summary = _summary_of(shape, summarised)
    corrections = Corrections(corrected)
    if summary is not None and is_alone:
        summary = replace(summary, corrections=corrections.heard(summary.steers))
    steps = recorded_steps(replies, with_refreshed(results, shown), corrections)
    record = RunRecord(
        model=spec.model,
        instructions=spec.instructions,
        earlier=_earlier(company, shown) if company else (),
        requests=tuple(row["text"] for row in requests),
        steps=steps,
        corrections=corrections.heard(steers),
        tools=offered_tools(spec.tools),
        max_output_tokens=spec.policy.max_output_tokens,
        cache_key=spec.thread_id,
        run_id=spec.run_id,
        summary=summary if is_alone else None,
    )
    record = with_given(record, given)
    if summary is None or shape.first_kept is None or is_alone:
        return record
    return kept_from(record, shape.first_kept, summary)


def _step_in(run_id: RunId, place: Place | None) -> int:
    """The step of a place in this run; 0 for one in an earlier run."""
    return place.step if place is not None and place.run_id == run_id else 0


def _summary_of(shape: Shape, rows: list[Row]) -> RecordedSummary | None:
    if shape.summary is None:
        return None
    if not rows:
        raise InvariantBroken(f"The summary {shape.summary!r} of a request is not in the record.")
    row = rows[0]
    return RecordedSummary(row["text"], row["unresolved"], steers=row["steers"])


def _earlier(company: list[list[Row]], shown: Shown) -> tuple[RecordedRun, ...]:
    requests, replies, results, steers = company
    return earlier_runs.earlier_runs(requests, replies, with_refreshed(results, shown), steers)
