"""What the owner of a run may do to it. Each verb is one transaction.

A verb that finds nothing to do returns None and has changed nothing; models/objections.py says why.
With a `key` of the caller's own it is safe to repeat whatever happened in between: the second time
does nothing, and `find_action` finds the first.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from psycopg.errors import UniqueViolation

from models import hot, hot_owner
from models.database import Database
from models.hot_sweep import PROMOTE
from models.input_checks import check_storable
from models.outcomes import KNOWN_DETAIL, UNKNOWN_DETAIL
from umbel.contracts import CallId, Principal, RunId, new_id
from umbel.errors import InvalidInput
from umbel.faults import fault
from umbel.names import SteerMode, Verification

MAX_STEER_CHARS: Final = 4_000
FINDING_CHARS: Final = (10, 2_000)
"""Least and most of what an owner says about an unknown change."""
MAX_KEY_CHARS: Final = 255
QUIET_SECONDS: Final = 60.0
"""After its deadline a change that nobody answered for may still be on its way for so long."""

_THREAD: Final = "SELECT thread_id FROM runs WHERE id = %(run_id)s"
STOPPED_BODY: Final = (
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


@dataclass(frozen=True, slots=True)
class OtherLimits:
    """A policy that differs from the run's in its limits."""

    policy: str
    """Canonical JSON text."""
    policy_was: bytes
    """SHA-256 of the one it was made from."""
    changes: Mapping[str, int | float | None]
    """The limits that differ, by name."""


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody did to a run under a key."""

    kind: str
    """The event that tells of it."""
    ref: str
    """The correction, else the run."""


def resume_run(
    database: Database,
    run_id: RunId,
    principal: Principal,
    *,
    limits: OtherLimits | None = None,
    key: str | None = None,
) -> int | None:
    """Let a settled run of its owner go on; the step that is ready now.

    None when it is not theirs, not paused, failed or cancelled, has an outcome nobody knows or an
    open call, its thread is occupied, or its policy is not the one that `limits` were made from. Of
    many callers at once exactly one gets the step.

    Raises:
        InvalidInput: the key is none.
    """
    parameters = _whose(run_id, principal, key) | _limits(limits)
    try:
        _, rows = database.run((hot.LOCK_THREAD, parameters), (hot_owner.RESUME, parameters))
    except UniqueViolation:
        return None  # a run of the thread was started at this very moment
    fault("resume.post_commit", run_id=run_id)
    return int(rows[0]["step"]) if rows else None


def stop_run(
    database: Database, run_id: RunId, principal: Principal, *, key: str | None = None
) -> Stopped | None:
    """Let nothing of the run start any more, from this moment on.

    None: it is not theirs, was stopped before, or has ended. Corrections that no request has held
    are returned.

    Raises:
        InvalidInput: the key is none.
    """
    parameters = _whose(run_id, principal, key) | {"skipped_body": STOPPED_BODY}
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
    fault("stop.post_commit", run_id=run_id)
    if not rows:
        return None
    return Stopped(
        is_over=rows[0]["ends"],
        draining=tuple(CallId(row["id"]) for row in draining),
        promoted=tuple((RunId(row["id"]), row["step"]) for row in promoted),
    )


def steer_run(
    database: Database,
    run_id: RunId,
    principal: Principal,
    text: str,
    mode: SteerMode,
    *,
    key: str | None = None,
) -> Steered | None:
    """Correct a run: the text is in every request that is built from now on.

    The owner may, and on a public thread its named collaborators: from then on changes of the
    thread's runs need the owner's approval, whatever their permission mode.

    None: it is not theirs, is being stopped, or has ended.

    Raises:
        InvalidInput: the text is empty, longer than 4,000 characters, or cannot be stored; or the
            key is none.
    """
    steer_id = new_id("str")
    parameters = _whose(run_id, principal, key) | steering(steer_id, text, mode)
    *_, rows = database.run(
        (hot.LOCK_THREAD, parameters), (hot.LOCK_RUN, parameters), (hot_owner.STEER, parameters)
    )
    fault("steer.post_commit", run_id=run_id)
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
        InvalidInput: the text has not 10 to 2,000 characters, or cannot be stored.
    """
    _check_words("What you found", text, *FINDING_CHARS)
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
    fault("verify.post_commit", run_id=run_id)
    return int(rows[0]["unknowns"]) if rows else None


def find_action(database: Database, run_id: RunId, principal: Principal, key: str) -> Action | None:
    """What this principal did to the run under this key."""
    [rows] = database.run((hot_owner.ACTION, _whose(run_id, principal, key)))
    return Action(rows[0]["kind"], rows[0]["ref"]) if rows else None


def steering(steer_id: str, text: str, mode: SteerMode) -> dict[str, Any]:
    """Parameters of STEER for a text.

    Raises:
        InvalidInput: the text is none that a run may be corrected with.
    """
    _check_words("The correction", text, 1, MAX_STEER_CHARS)
    return {
        "steer_id": steer_id,
        "mode": mode,
        "text": text,
        "skipped_body": _STEERED_BODY,
        "unknown_detail": UNKNOWN_DETAIL,
    }


def _whose(run_id: RunId, principal: Principal, key: str | None = None) -> dict[str, Any]:
    if key is not None:
        _check_words("The key", key, 1, MAX_KEY_CHARS)
    return {"run_id": run_id, "tenant": principal.tenant, "owner": principal.user, "key": key}


def _limits(limits: OtherLimits | None) -> dict[str, Any]:
    if limits is None:
        return {"policy": None, "policy_was": None, "limits": "{}"}
    told = {
        "limits": dict(limits.changes),
        "policy_sha": hashlib.sha256(limits.policy.encode()).hexdigest(),
    }
    return {
        "policy": limits.policy,
        "policy_was": limits.policy_was,
        "limits": json.dumps(told),
    }


def _check_words(what: str, words: str, least: int, most: int) -> None:
    check_storable(what, words)
    if not least <= len(words.strip()) or len(words) > most:
        raise InvalidInput(
            f"{what} has {len(words.strip())} characters; write {least} to {most:,} of them."
        )
