"""What the owner of a run may do to it. Each verb is one transaction and safe to repeat."""

import json
from dataclasses import dataclass
from typing import Any, Final

from psycopg.errors import UniqueViolation

from models import hot, hot_owner
from models.calls import KNOWN_DETAIL, UNKNOWN_DETAIL
from models.database import Database
from models.hot_sweep import PROMOTE
from models.runs import check_input
from umbel.contracts import CallId, Principal, RunId, new_id
from umbel.errors import InvalidInput
from umbel.names import SteerMode, Verification

MAX_STEER_CHARS: Final = 4_000
QUIET_SECONDS: Final = 60.0
"""After its deadline a change that nobody answered for may still be on its way for so long."""

_THREAD: Final = "SELECT thread_id FROM runs WHERE id = %(run_id)s"
_STOPPED_BODY: Final = (
    '{"error":{"code":"skipped","message":"Not started: the run was stopped by its owner."}}'
)
_STEERED_BODY: Final = (
    '{"error":{"code":"skipped","message":"Not started: its owner corrected the run."}}'
)


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a stop has left."""

    is_over: bool
    """The run is cancelled; otherwise it ends when what is started has ended."""
    draining: tuple[CallId, ...]
    """Calls that were started before the stop: their outcome is still recorded."""
    promoted: tuple[tuple[RunId, int], ...]
    """Runs of the thread whose turn it now is, with their step."""


@dataclass(frozen=True, slots=True)
class Steered:
    """A correction that was accepted."""

    steer_id: str
    rev: int
    next_step: int | None
    """Set when it made the run ready for another step at once."""


def resume_run(database: Database, run_id: RunId, principal: Principal) -> int | None:
    """Let a settled run of its owner go on; the step that is ready now.

    None when it is not theirs, not paused, failed or cancelled, has an outcome nobody knows or an
    open call, or its thread is occupied. Of many callers at once exactly one gets the step.
    """
    parameters = _whose(run_id, principal)
    try:
        _, rows = database.run((hot.LOCK_THREAD, parameters), (hot_owner.RESUME, parameters))
    except UniqueViolation:
        return None  # a run of the thread was started at this very moment
    return int(rows[0]["step"]) if rows else None


def stop_run(database: Database, run_id: RunId, principal: Principal) -> Stopped | None:
    """Let nothing of the run start any more, from this moment on.

    None: it is not theirs, was stopped before, or has ended. Corrections that no request has held
    are returned.
    """
    parameters = _whose(run_id, principal) | {"skipped_body": _STOPPED_BODY}
    [threads] = database.run((_THREAD, parameters))
    if not threads:
        return None
    _, _, rows, draining, promoted = database.run(
        (hot.LOCK_THREAD, parameters),
        (hot.LOCK_RUN, parameters),
        (hot_owner.STOP, parameters),
        (hot_owner.DRAINING, parameters),
        (PROMOTE, {"thread_id": threads[0]["thread_id"], "limit": 1}),
    )
    if not rows:
        return None
    return Stopped(
        is_over=rows[0]["ends"],
        draining=tuple(CallId(row["id"]) for row in draining),
        promoted=tuple((RunId(row["id"]), row["step"]) for row in promoted),
    )


def steer_run(
    database: Database, run_id: RunId, principal: Principal, text: str, mode: SteerMode
) -> Steered | None:
    """Correct a run: the text is in every request that is built from now on.

    None: it is not theirs, is being stopped, or has ended.

    Raises:
        InvalidInput: the text is empty, longer than 4,000 characters, or cannot be stored.
    """
    check_input(text)
    if len(text) > MAX_STEER_CHARS:
        raise InvalidInput(
            f"The correction has {len(text)} characters; the limit is {MAX_STEER_CHARS}."
        )
    steer_id = new_id("str")
    parameters = _whose(run_id, principal) | {
        "steer_id": steer_id,
        "mode": mode,
        "text": text,
        "skipped_body": _STEERED_BODY,
        "unknown_detail": UNKNOWN_DETAIL,
    }
    _, rows = database.run((hot.LOCK_RUN, parameters), (hot_owner.STEER, parameters))
    return Steered(steer_id, rows[0]["rev"], rows[0]["next_step"]) if rows else None


def verify_receipt(
    database: Database,
    run_id: RunId,
    call_id: CallId,
    principal: Principal,
    outcome: Verification,
    text: str,
) -> int | None:
    """Settle an unknown change by its owner's word; how many unknown ones the run still has.

    It sends nothing. None: it is not theirs, or its outcome is known.

    Raises:
        InvalidInput: the text says nothing, or cannot be stored.
    """
    check_input(text)
    word = {"verified_by_owner": outcome, "text": text}
    parameters = _whose(run_id, principal) | {
        "call_id": call_id,
        "outcome": outcome,
        "text": text,
        "body": json.dumps(word, ensure_ascii=False, separators=(",", ":")),
        "known_detail": KNOWN_DETAIL,
        "quiet_seconds": QUIET_SECONDS,
    }
    _, rows = database.run((hot.LOCK_RUN, parameters), (hot_owner.VERIFY, parameters))
    return int(rows[0]["unknowns"]) if rows else None


def _whose(run_id: RunId, principal: Principal) -> dict[str, Any]:
    return {"run_id": run_id, "tenant": principal.tenant, "owner": principal.user}
