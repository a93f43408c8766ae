"""A step's two writes: the claim that opens it and the decision that closes it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg.errors import DivisionByZero, UniqueViolation

from loop.decision import Answer, Pause, Retry
from loop.response import ModelTurn
from models import hot
from models.calls import ReadyCall
from models.claiming import FRESH, Duty
from models.database import Database, Row
from models.hot_sweep import PROMOTE
from models.schema import parse_stored
from models.sent import LAST_SENT, NOTHING_SENT, LastSent, last_sent
from umbel.contracts import CallId, RunId, ThreadId, WorkerId, new_id
from umbel.errors import InvariantBroken
from umbel.names import Reason, RunStatus

ASKED_DETAIL: Final = (
    "A change waits for its owner: `umbel approvals list` shows it. It is done only as approved."
)


@dataclass(frozen=True, slots=True)
class Claim:
    """Proof that `worker` held the run when it claimed: goes with every write of the step."""

    run_id: RunId
    thread_id: ThreadId
    tenant: str
    step: int
    fence: int
    worker: WorkerId
    attempt: int
    """The model call row that this claim opened, or whose reply waits to be applied; 0: none."""
    claims: int
    """Claims of this step since its last decision, this one included."""
    failures: int
    corrections: int
    """Steps in a row before this one in which no call could be run."""
    calls_used: int
    steer_rev: int
    source_rev: int
    auth_rev: int
    steers: int
    """Corrections that the step's request holds, or held if its reply is stored."""
    stored_text: str | None
    losses: int = 0
    """Workers that this step has cost already."""
    owner: str = ""
    """Of the run."""
    owner_must_approve: bool = False
    """It knows words of a collaborator: its changes need the owner, whatever its mode."""
    policy_rev: int = 0
    """Times that a resume has set other limits."""
    sent: LastSent = field(default=NOTHING_SENT, compare=False)
    """The run's latest request."""
    is_stale: bool = False
    """Nobody is asked under it: first it is looked at what has become of the run's sources."""
    waited_seconds: float | None = field(default=None, compare=False)
    """From ready to this claim; None: it had to wait, or nobody knows since when."""

    @property
    def stored_reply(self) -> ModelTurn | None:
        """A reply that was booked but could not be applied: apply it, do not ask again.

        Raises:
            InvariantBroken: it does not parse. Not found out by the claim: that is committed.
        """
        return None if self.stored_text is None else parse_stored(ModelTurn, self.stored_text)


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A row for `calls`: cleared by preflight, or settled by it with a result text."""

    position: int
    model_id: str
    tool: str
    tool_version: str
    effect: str
    placement: str
    state: str
    args_text: str | None
    stall_seconds: float
    body: str | None = None
    """Result text of a call that preflight settled."""
    repeats: bool = False
    """Preflight settled it because it only repeats what the run has done."""
    resource_key: str | None = None
    """Of a change: what it touches; None: its thread as a whole."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What was sent and what came back; the facts of one model call row."""

    reply: ModelTurn
    endpoint: str | None
    manifest: str | None
    """None, like the hash: the row already has it (a stored reply is applied)."""
    request_sha: bytes | None


@dataclass(frozen=True, slots=True)
class Applied:
    """What a decision commit left to do."""

    ready_calls: tuple[ReadyCall, ...] = ()
    next_step: int | None = None
    """Set when the run is ready for another step at once."""
    promoted: tuple[tuple[RunId, int], ...] = ()
    """Runs of the thread whose turn it now is, with their step."""


@dataclass(frozen=True, slots=True)
class GivenBack:
    """A run that its holder has let go of."""

    status: RunStatus

    @property
    def ended(self) -> tuple[RunStatus, Reason] | None:
        """Status and reason of the run, if that was its end: a stop had come meanwhile."""
        return ("cancelled", "owner_stop") if self.status == "cancelled" else None


def claim_step(
    database: Database, run_id: RunId, step: int, worker: WorkerId, duty: Duty = FRESH
) -> Claim | None:
    """Take a ready run for `worker`, or None: not ready, not due, not its duty, or further on."""
    parameters = duty.parameters() | {"run_id": run_id, "step": step, "worker": worker}
    statements = (hot.CLAIM, parameters), (hot.HEAR, parameters), (LAST_SENT, parameters)
    try:
        rows, _, [sent] = database.run(*statements)
    except UniqueViolation:
        # After waiting for a lock the attempt number may be from before; a second look is not.
        rows, _, [sent] = database.run(*statements)
    return _claim_of(rows[0], worker, last_sent(sent)) if rows else None


def is_step_ready(database: Database, run_id: RunId, step: int) -> bool:
    """Whether the record says that anybody may claim this step."""
    [rows] = database.run((hot.IS_READY, {"run_id": run_id, "step": step}))
    return bool(rows)


def commit_dispatch(
    database: Database,
    claim: Claim,
    exchange: Exchange,
    calls: Sequence[PreparedCall],
    approval_seconds: float | None = None,
) -> Applied | None:
    """Store usage, reply, decision and calls as one; None when the claim no longer holds.

    Calls that await approval make the run wait for its owner, so long at most.
    """
    ids = [CallId(new_id("call")) for _ in calls]
    rows = [_call_row(call_id, call) for call_id, call in zip(ids, calls, strict=True)]
    parameters = _decision(claim, exchange, "dispatch") | {
        "calls": json.dumps(rows),
        "approval_seconds": approval_seconds,
        "asked_detail": ASKED_DETAIL,
    }
    [decided] = _decide(database, (hot.DECIDE_DISPATCH, parameters))
    if not decided:
        return None
    ready = (
        ReadyCall(call_id, call.tool)
        for call_id, call in zip(ids, calls, strict=True)
        if call.state == "ready"
    )
    next_step = decided[0]["step"] if decided[0]["work"] == "ready" else None
    return Applied(ready_calls=tuple(ready), next_step=next_step)


def commit_answer(
    database: Database, claim: Claim, exchange: Exchange, answer: Answer
) -> Applied | None:
    """Complete the run with its answer and put the answer into the owner's inbox."""
    parameters = _decision(claim, exchange, "answer")
    parameters |= {"answer": answer.text, "delivery_id": new_id("dlv")}
    return _settle_and_promote(database, claim, (hot.DECIDE_ANSWER, parameters))


def commit_pause(
    database: Database, claim: Claim, exchange: Exchange, pause: Pause
) -> Applied | None:
    """Leave the run to a person; a kept reply waits for the claim after a resume."""
    parameters = _decision(claim, exchange, None if pause.keeps_reply else "pause")
    parameters |= {"reason": pause.reason, "detail": pause.detail}
    return _settle_and_promote(database, claim, (hot.DECIDE_PAUSE, parameters))


def commit_retry(
    database: Database, claim: Claim, exchange: Exchange, retry: Retry
) -> Applied | None:
    """Let the same step ask again after its wait."""
    parameters = _decision(claim, exchange, "retry")
    parameters |= {"cause": retry.cause, "wait_seconds": retry.wait_seconds, "detail": retry.detail}
    [decided] = _decide(database, (hot.DECIDE_RETRY, parameters))
    if not decided:
        return None
    return Applied(next_step=claim.step if retry.wait_seconds <= 0 else None)


def pause_unsent(database: Database, claim: Claim, pause: Pause) -> Applied | None:
    """Leave a run to a person whose step has asked nobody; None when the claim no longer holds."""
    parameters = stands(claim) | {"reason": pause.reason, "detail": pause.detail}
    return _settle_and_promote(database, claim, (hot.PAUSE_UNSENT, parameters))


def book_reply(database: Database, claim: Claim, exchange: Exchange, *, discard: bool) -> bool:
    """Book usage and reply without applying a decision; False when the row has a decision.

    With `discard` the reply will never be applied; without, the next claim applies it.
    """
    parameters = _decision(claim, exchange, "discard" if discard else None)
    _, rows = database.run((hot.LOCK_RUN, parameters), (hot.BOOK_REPLY, parameters))
    return bool(rows)


def hand_back(
    database: Database, claim: Claim, *, wait_seconds: float, detail: str, is_failure: bool
) -> GivenBack | None:
    """Give the run back unapplied, for any worker to claim after the wait; None: it is not held.

    Only a failure counts against the step's claims.
    """
    parameters = {
        "wait_seconds": wait_seconds,
        "detail": detail,
        "uncounted": 0 if is_failure else 1,
    }
    [rows] = database.run((hot.HAND_BACK, _held(claim) | parameters))
    return GivenBack(rows[0]["status"]) if rows else None


def release_own(
    database: Database, run_id: RunId, step: int, worker: WorkerId, *, fence: int | None = None
) -> GivenBack | None:
    """Free a run that `worker` holds without knowing it: the answer to its claim was lost.

    None: it does not hold it, or by a later claim than that of `fence`. The caller makes sure that
    nothing else in its process carries it.
    """
    parameters = {"run_id": run_id, "step": step, "worker": worker, "fence": fence}
    _, rows = database.run((hot.LOCK_RUN, parameters), (hot.RELEASE_OWN, parameters))
    return GivenBack(rows[0]["status"]) if rows else None


def fail_run(
    database: Database, claim: Claim, *, reason: Reason, detail: str
) -> tuple[RunStatus, Reason] | None:
    """End the run as failed, or as cancelled if it was stopped; None: it is not held any more.

    Nothing restarts it by itself.
    """
    [rows] = database.run((hot.FAIL_RUN, _held(claim) | {"reason": reason, "detail": detail}))
    return (rows[0]["status"], rows[0]["reason"]) if rows else None


def _settle_and_promote(
    database: Database, claim: Claim, decide: tuple[str, dict[str, Any]]
) -> Applied | None:
    """The run leaves its thread free: the thread row is locked first, the next run comes after."""
    promote = (PROMOTE, {"thread_id": claim.thread_id, "limit": 1})
    _, decided, promoted = _decide(
        database, (hot.LOCK_THREAD, {"run_id": claim.run_id}), decide, promote
    )
    if not decided:
        return None
    return Applied(promoted=tuple((RunId(row["id"]), row["step"]) for row in promoted))


def _decide(database: Database, *statements: tuple[str, dict[str, Any]]) -> list[list[Row]]:
    try:
        return database.run(*statements)
    except DivisionByZero as error:
        raise InvariantBroken("A decision found its model call already decided.") from error


def _held(claim: Claim) -> dict[str, Any]:
    return {"run_id": claim.run_id, "fence": claim.fence, "worker": claim.worker}


def stands(claim: Claim) -> dict[str, Any]:
    """What has not moved while the claim holds: parameters of `hot.STILL_HELD`."""
    return _held(claim) | {
        "step": claim.step,
        "steer_rev": claim.steer_rev,
        "source_rev": claim.source_rev,
        "auth_rev": claim.auth_rev,
    }


def reply_columns(exchange: Exchange) -> dict[str, Any]:
    """What a model call cost and brought: parameters of `hot.REPLY_COLUMNS`."""
    reply, usage = exchange.reply, exchange.reply.usage
    return {
        "endpoint": exchange.endpoint,
        "model": reply.model,
        "manifest": exchange.manifest,
        "request_sha": exchange.request_sha,
        "reply": reply.model_dump_json(),
        "error_class": reply.failure.error_class if reply.failure else None,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "is_estimated": usage.is_estimated,
    }


def _decision(claim: Claim, exchange: Exchange, decision: str | None) -> dict[str, Any]:
    own = {"attempt": claim.attempt, "steers": claim.steers, "decision": decision}
    return stands(claim) | reply_columns(exchange) | own


def _call_row(call_id: CallId, call: PreparedCall) -> dict[str, Any]:
    return {
        "id": call_id,
        "position": call.position,
        "model_id": call.model_id,
        "tool": call.tool,
        "tool_version": call.tool_version,
        "effect": call.effect,
        "placement": call.placement,
        "state": call.state,
        "args_text": call.args_text,
        "stall_seconds": call.stall_seconds,
        "body": call.body,
        "repeats": call.repeats,
        "resource_key": call.resource_key,
    }


def _claim_of(row: Row, worker: WorkerId, sent: LastSent) -> Claim:
    return Claim(
        run_id=RunId(row["id"]),
        thread_id=ThreadId(row["thread_id"]),
        tenant=row["tenant"],
        step=row["step"],
        fence=row["fence"],
        worker=worker,
        attempt=row["stored_attempt"] or row["opened_attempt"] or 0,
        claims=row["attempts"],
        failures=row["failures"],
        corrections=row["corrections"],
        calls_used=row["calls_used"],
        steer_rev=row["steer_rev"],
        source_rev=row["source_rev"],
        auth_rev=row["auth_rev"],
        steers=row["steers_held"],
        stored_text=row["stored_reply"],
        losses=row["losses"],
        owner=row["owner"],
        owner_must_approve=row["owner_must_approve"],
        policy_rev=row["policy_rev"],
        is_stale=row["is_stale"],
        waited_seconds=row["waited_seconds"],
        sent=sent,
    )
