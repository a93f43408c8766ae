"""The record of a run: its frozen specification, and what its next request is built from."""

import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from loop.policy import Policy
from loop.transcript import RunRecord, offered_tools
from models import earlier_runs
from models.database import Database
from models.recorded import Corrections, recorded_steps
from models.schema import parse_stored
from umbel.contracts import RunId, ThreadId
from umbel.errors import ContractMismatch, InvariantBroken
from umbel.names import WireName

_SPEC: Final = """
SELECT s.run_id, r.thread_id, s.model, s.wire, s.instructions, s.policy,
  encode(s.policy_sha, 'hex') AS policy_sha, s.tools, encode(s.tools_sha, 'hex') AS tools_sha,
  s.workspace, s.agent, s.traceparent, r.policy_rev,
  EXISTS (SELECT 1 FROM entries e WHERE e.thread_id = r.thread_id AND e.run_id <> r.id)
    AS has_company
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
    has_company: bool = False
    """Its thread had other runs when this was read: those before it are part of its record."""

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
        has_company=row["has_company"],
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

    Of the corrections it holds the first `steers`, each before the first reply that heard of it. A
    run that is not its thread's first knows the ones before it.

    Raises:
        InvariantBroken: a call of an earlier step has no result, or a stored reply does not parse.
    """
    parameters = {
        "run_id": spec.run_id,
        "thread_id": spec.thread_id,
        "step": step,
        "steers": steers,
    }
    statements = [_ENTRIES, _REPLIES, _RESULTS, _STEERS]
    if spec.has_company:
        statements += _COMPANY
    found = database.run(*((statement, parameters) for statement in statements))
    requests, replies, results, corrected, *company = found
    for row in results:
        if row["view"] is None:
            raise InvariantBroken(f"The call {row['id']!r} has no result, yet its step is over.")
    corrections = Corrections(corrected)
    steps = recorded_steps(replies, results, corrections)
    return RunRecord(
        model=spec.model,
        instructions=spec.instructions,
        earlier=earlier_runs.earlier_runs(*company) if company else (),
        requests=tuple(row["text"] for row in requests),
        steps=steps,
        corrections=corrections.heard(steers),
        tools=offered_tools(spec.tools),
        max_output_tokens=spec.policy.max_output_tokens,
        cache_key=spec.thread_id,
    )
