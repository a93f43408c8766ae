"""One tool call's writes: start or intent, progress, outcome."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg.errors import UniqueViolation

from loop.decision import Pause
from loop.outcome import Errored, Refused, Returned, Skipped, ToolOutcome, Unknown
from models import hot, hot_calls, hot_owner, hot_settle
from models.authority import LOCK_SHARED, NOTHING_SAID, RULES, Authority, authority_of
from models.database import Database, Row, Statement
from models.naming import NO_SOURCES, naming
from models.outcomes import change_outcome, outcome_parameters
from umbel.contracts import CallId, RunId, ThreadId, WorkerId
from umbel.names import Effect, Reason, RunStatus

MAX_READ_ATTEMPTS: Final = 3
"""Times a read may be started; it is repeated only after its worker was lost."""


@dataclass(frozen=True, slots=True)
class CallRow:
    """A call as a tool worker finds it."""

    call_id: CallId
    run_id: RunId
    thread_id: ThreadId
    tenant: str
    tool: str
    tool_version: str
    effect: Effect
    state: str
    attempt: int
    stall_seconds: float
    step: int
    fence: int
    """The run's, when the call was loaded; guards nothing."""
    owner: str = ""
    """Of the run."""
    args_text: str = ""
    needs_approval: bool = False
    """It was asked about when it was decided upon."""
    authority: Authority = NOTHING_SAID
    """What may forbid it, when the call was loaded; it starts only while that is still so."""
    waited_seconds: float | None = field(default=None, compare=False)
    """Since it became ready; means nothing for a call that is not ready."""


@dataclass(frozen=True, slots=True)
class Started:
    """Proof that `worker` started this attempt: goes with its outcome."""

    call: CallRow
    worker: WorkerId
    attempt: int
    args_text: str


@dataclass(frozen=True, slots=True)
class ReadyCall:
    """A call that any worker may start now."""

    call_id: CallId
    tool: str


@dataclass(frozen=True, slots=True)
class Settled:
    """What an outcome left to do."""

    work: str
    status: RunStatus
    step: int
    next_call: ReadyCall | None
    """A planned call that is ready now."""
    is_join: bool = False
    """It closed the last open call of the step."""
    reason: Reason | None = None

    @property
    def ended(self) -> tuple[RunStatus, Reason | None] | None:
        """Status and reason of the run, if this very outcome settled it."""
        return (self.status, self.reason) if self.is_join and self.work == "none" else None

    @property
    def next_step(self) -> int | None:
        """The step the run is ready for, if this outcome completed the join."""
        return self.step if self.work == "ready" else None


_LOAD: Final = f"""
SELECT c.id, c.run_id, r.thread_id, c.tenant, c.tool, c.tool_version, c.effect, c.state, c.attempt,
  c.stall_seconds, c.step, r.fence, r.owner, c.args_text, c.needs_approval,
  extract(epoch FROM clock_timestamp() - {hot_calls.READY_SINCE})::float8 AS waited_seconds
FROM calls c JOIN runs r ON r.id = c.run_id WHERE c.id = %(call_id)s
"""  # noqa: S608 - constant text, no input
_RULES: Final = RULES.replace("%(tenant)s", "(SELECT tenant FROM calls WHERE id = %(call_id)s)")


def load_call(database: Database, call_id: CallId) -> CallRow | None:
    """The call, or None for an id that never was."""
    asked = {"call_id": call_id}
    rows, rules = database.run((_LOAD, asked), (_RULES, asked))
    return _call_of(rows[0], authority_of(rules)) if rows else None


def start_read(database: Database, call: CallRow, worker: WorkerId) -> Started | None:
    """Mark a read as started; None when it is not ready, not approved, or things have moved on.

    That is: its run was stopped or corrected, or more was said about what may be done.
    """
    parameters = _starting(call, worker) | {"max_attempts": MAX_READ_ATTEMPTS}
    start: list[Statement] = [(hot_calls.START_READ, parameters)]
    if call.effect != "read":  # it may change something
        start[:0] = [(hot.LOCK_RUN, parameters), (LOCK_SHARED, parameters)]
    rows = database.run(*start)[-1]
    return Started(call, worker, rows[0]["attempt"], rows[0]["args_text"]) if rows else None


def record_intent(database: Database, call: CallRow, worker: WorkerId) -> Started | None:
    """Write down that this change is about to be sent; None when it must not be.

    Checked in the same statement: stop, corrections, sources, authority, its owner's approval,
    other unknown outcomes, tool version, other changes of its resource key. There is one intent per
    call, ever.
    """
    parameters = _starting(call, worker) | {"tool_version": call.tool_version}
    try:
        *_, rows = database.run(
            (hot.LOCK_RUN, parameters), (LOCK_SHARED, parameters), (hot_calls.INTENT, parameters)
        )
    except UniqueViolation:
        return None  # a change of the same key was started at this very moment
    return Started(call, worker, rows[0]["attempt"], rows[0]["args_text"]) if rows else None


def find_own_start(database: Database, call: CallRow, worker: WorkerId) -> Started | None:
    """A start or intent of `worker` whose answer was lost; None when there is none.

    The caller makes sure that nothing in its process has acted on it.
    """
    parameters = {"call_id": call.call_id, "run_id": call.run_id, "worker": worker}
    _, _, rows = database.run(
        (hot.LOCK_RUN, parameters),
        (hot_calls.LOCK_CALL, parameters),
        (hot_calls.OWN_START, parameters),
    )
    return Started(call, worker, rows[0]["attempt"], rows[0]["args_text"]) if rows else None


def free_own_read(database: Database, started: Started) -> bool:
    """Make a read ready again that its worker cannot finish; False when it is not its any more."""
    parameters = {
        "call_id": started.call.call_id,
        "attempt": started.attempt,
        "worker": started.worker,
    }
    [rows] = database.run((hot_calls.FREE_OWN_READ, parameters))
    return bool(rows)


def extend_deadline(database: Database, started: Started) -> bool:
    """Move the deadline to now plus the tool's allowed silence; False when the call is not ours."""
    parameters = {
        "call_id": started.call.call_id,
        "attempt": started.attempt,
        "worker": started.worker,
    }
    [rows] = database.run((hot_calls.EXTEND_DEADLINE, parameters))
    return bool(rows)


def settle(
    database: Database,
    started: Started,
    outcome: ToolOutcome,
    view: str,
    resources: Sequence[str] = (),
    sources: Mapping[str, str | None] = NO_SOURCES,
) -> Settled | None:
    """Store how an attempt ended, and join. None: somebody else settled it, nothing was written.

    Args:
        database: where to.
        started: the attempt.
        outcome: how it ended.
        view: what requests show of that.
        resources: the ids a change has recorded of what it made outside.
        sources: what a returned result rests on, by name, in which revision.
    """
    call = started.call
    parameters = _settling(call, outcome, view) | {
        "attempt": started.attempt,
        "worker": started.worker,
    }
    if call.effect == "mutation":
        parameters |= change_outcome(outcome) | {"only_if_lost": False, "dead_after": 0}
        parameters["resources"] = json.dumps(list(resources)) if resources else None
        statement = hot_settle.SETTLE_CHANGE
    else:
        statement = hot_settle.SETTLE_READ
    named = sources if isinstance(outcome, Returned) else NO_SOURCES
    settled = _settle(database, (statement, parameters), sources=named)
    if settled is None and call.effect == "mutation" and not isinstance(outcome, Unknown):
        # The owner may have said meanwhile how it ended.
        database.run((hot.LOCK_RUN, parameters), (hot_owner.NOTE_LATE, parameters))
    return settled


def give_up(
    database: Database, call: CallRow, outcome: Errored | Refused, pause: Pause | None = None
) -> Settled | None:
    """Settle a call that was never sent and cannot be started.

    With `pause` its run does not go on: it pauses as soon as its other calls have ended.
    """
    parameters = _settling(call, outcome, outcome.text)
    if pause is not None:
        parameters |= {"pause_reason": pause.reason, "pause_detail": pause.detail}
    return _settle(database, (hot_settle.GIVE_UP_CALL, parameters), is_patient=False)


def end_ready_call(
    database: Database, *, call_id: CallId, run_id: RunId, outcome: Skipped | Errored
) -> Settled | None:
    """Settle a ready call that nobody may start any more."""
    parameters = outcome_parameters(outcome, outcome.text)
    parameters |= {"call_id": call_id, "run_id": run_id}
    return _settle(database, (hot_settle.GIVE_UP_CALL, parameters), is_patient=False)


def settle_lost_change(
    database: Database, *, call_id: CallId, run_id: RunId, attempt: int, dead_after_seconds: float
) -> Settled | None:
    """Mark a change unknown, if its deadline is over or its worker dead at this very moment."""
    outcome = Unknown("The worker that sent it is gone, or it has been silent for too long.")
    parameters = outcome_parameters(outcome, "") | {
        "call_id": call_id,
        "run_id": run_id,
        "attempt": attempt,
        "only_if_lost": True,
        "dead_after": dead_after_seconds,
    }
    parameters |= change_outcome(outcome)
    return _settle(database, (hot_settle.SETTLE_CHANGE, parameters), is_patient=False)


def settle_stalled_read(
    database: Database, *, call_id: CallId, run_id: RunId, attempt: int, outcome: Errored
) -> Settled | None:
    """End a read as an error, if its deadline is over at this very moment."""
    parameters = outcome_parameters(outcome, outcome.text) | {
        "call_id": call_id,
        "run_id": run_id,
        "attempt": attempt,
    }
    return _settle(database, (hot_settle.SETTLE_STALLED_READ, parameters), is_patient=False)


def _settle(
    database: Database,
    statement: tuple[str, dict[str, Any]],
    *,
    is_patient: bool = True,
    sources: Mapping[str, str | None] = NO_SOURCES,
) -> Settled | None:
    """Lock the run and settle. Who settles for others does not wait long: Contended."""
    lock = (hot.LOCK_RUN, {"run_id": statement[1]["run_id"]})
    patience: list[Statement] = [] if is_patient else [(hot_settle.IMPATIENCE, {})]
    has_capture = statement[1]["capture_id"] is not None
    keep: list[Statement] = [(hot_settle.KEEP_CAPTURE, statement[1])] if has_capture else []
    shared, name = naming(statement[1], sources)
    before = [*patience, lock, *shared]
    rows = database.run(*before, statement, *keep, *name)[len(before)]
    return settled_of(rows[0]) if rows else None


def settled_of(row: Row) -> Settled:
    """A row of what a settling statement gives."""
    ready = None if row["next_call"] is None else ReadyCall(row["next_call"], row["next_tool"])
    return Settled(row["work"], row["status"], row["step"], ready, row["joins"], row["reason"])


def _starting(call: CallRow, worker: WorkerId) -> dict[str, Any]:
    return {
        "call_id": call.call_id,
        "run_id": call.run_id,
        "tenant": call.tenant,
        "worker": worker,
        "authority_rev": call.authority.rev,
    }


def _settling(call: CallRow, outcome: ToolOutcome, view: str) -> dict[str, Any]:
    whose = {"call_id": call.call_id, "run_id": call.run_id, "tenant": call.tenant}
    return outcome_parameters(outcome, view) | whose


def _call_of(row: Row, authority: Authority) -> CallRow:
    return CallRow(
        call_id=CallId(row["id"]),
        run_id=RunId(row["run_id"]),
        thread_id=ThreadId(row["thread_id"]),
        tenant=row["tenant"],
        tool=row["tool"],
        tool_version=row["tool_version"],
        effect=row["effect"],
        state=row["state"],
        attempt=row["attempt"],
        stall_seconds=row["stall_seconds"],
        step=row["step"],
        fence=row["fence"],
        owner=row["owner"],
        args_text=row["args_text"] or "",
        needs_approval=row["needs_approval"],
        authority=authority,
        waited_seconds=row["waited_seconds"],
    )
