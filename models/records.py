"""The record of a run: its frozen specification, and what its next request is built from."""

import json
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from loop.policy import Policy
from loop.response import ModelTurn
from loop.transcript import RecordedCall, RecordedStep, RunRecord, offered_tools
from models.database import Database, Row
from models.schema import parse_stored
from umbel.contracts import RunId, ThreadId
from umbel.errors import InvariantBroken
from umbel.names import WireName

_SPEC: Final = """
SELECT s.run_id, r.thread_id, s.model, s.wire, s.instructions, s.policy,
  encode(s.policy_sha, 'hex') AS policy_sha, s.tools, encode(s.tools_sha, 'hex') AS tools_sha,
  s.workspace, s.agent, s.traceparent
FROM run_specs s JOIN runs r ON r.id = s.run_id WHERE s.run_id = %(run_id)s
"""
_REQUEST: Final = """
SELECT manifest, request_sha FROM model_calls
WHERE run_id = %(run_id)s AND step = %(step)s AND attempt = %(attempt)s AND manifest IS NOT NULL
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
WHERE run_id = %(run_id)s AND step < %(step)s AND decision = 'dispatch' ORDER BY step
"""
_RESULTS: Final = """
SELECT c.id, c.step, c.tool, c.args_text, e.view
FROM calls c LEFT JOIN evidence e ON e.call_id = c.id
WHERE c.run_id = %(run_id)s AND c.step < %(step)s ORDER BY c.step, c.position
"""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What was frozen into the run; immutable, so a process may keep it."""

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

    def get(self, run_id: RunId) -> RunSpec:
        """The specification of a run.

        Raises:
            InvariantBroken: the run has none, or it does not parse.
        """
        with self._lock:
            spec = self._specs.get(run_id)
        if spec is None:
            spec = load_spec(self._database, run_id)
            with self._lock:
                self._specs[run_id] = spec
                while len(self._specs) > self._size:
                    self._specs.popitem(last=False)
        return spec


def load_spec(database: Database, run_id: RunId) -> RunSpec:
    """The specification of a run, read anew; a worker uses its `SpecCache`.

    Raises:
        InvariantBroken: the run has none, or it does not parse.
    """
    [rows] = database.run((_SPEC, {"run_id": run_id}))
    if not rows:
        raise InvariantBroken(f"The run {run_id!r} has no specification.")
    row = rows[0]
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


def load_record(database: Database, spec: RunSpec, step: int, steers: int = 0) -> RunRecord:
    """Everything the request of `step` is built from: the steps before it, all settled.

    Of the corrections it holds the first `steers`, each before the first reply that heard of it.

    Raises:
        InvariantBroken: a call of an earlier step has no result, or a stored reply does not parse.
    """
    parameters = {"run_id": spec.run_id, "step": step, "steers": steers}
    statements = [(_ENTRIES, parameters), (_REPLIES, parameters), (_RESULTS, parameters)]
    if steers:  # most runs are never corrected
        statements.append((_STEERS, parameters))
    requests, replies, results, *corrected = database.run(*statements)
    corrections = [(row["rev"], row["text"]) for rows in corrected for row in rows]
    by_step: dict[int, list[RecordedCall]] = {}
    for row in results:
        by_step.setdefault(row["step"], []).append(_recorded_call(row))
    return RunRecord(
        model=spec.model,
        instructions=spec.instructions,
        requests=tuple(row["text"] for row in requests),
        steps=tuple(
            _recorded_step(row, by_step.get(row["step"], []), _heard(corrections, row["steers"]))
            for row in replies
        ),
        corrections=_heard(corrections, steers),
        tools=offered_tools(spec.tools),
        max_output_tokens=spec.policy.max_output_tokens,
        cache_key=spec.thread_id,
    )


def _heard(corrections: list[tuple[int, str]], through: int) -> tuple[str, ...]:
    """Take the corrections up to a revision off the list."""
    heard = [text for rev, text in corrections if rev <= through]
    del corrections[: len(heard)]
    return tuple(heard)


def _recorded_step(
    row: Row, calls: list[RecordedCall], corrections: tuple[str, ...]
) -> RecordedStep:
    reply = parse_stored(ModelTurn, row["reply"])
    return RecordedStep(row["step"], row["endpoint"], reply, tuple(calls), corrections)


def _recorded_call(row: Row) -> RecordedCall:
    if row["view"] is None:
        raise InvariantBroken(f"The call {row['id']!r} has no result, yet its step is over.")
    return RecordedCall(row["id"], row["tool"], row["args_text"], row["view"])
