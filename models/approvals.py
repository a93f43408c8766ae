"""What owners say about the calls that wait for them. Each verb is one transaction."""

import json
from dataclasses import dataclass
from typing import Any, Final

from loop.outcome import Refused, Skipped
from models import hot, hot_approvals
from models.calls import ReadyCall, Settled, settled_of
from models.database import Database, Row, Statement
from models.input_checks import check_storable
from models.outcomes import outcome_parameters
from models.row_by_row import row_by_row
from umbel.contracts import CallId, Principal, RunId, new_id
from umbel.errors import InvalidInput
from umbel.names import ApprovalWord

USE_WITHIN_SECONDS: Final = 3600.0
"""What was approved starts within this time, or not at all."""
MAX_WORDS_CHARS: Final = 4_000

_RUN_OF: Final = "SELECT run_id FROM calls WHERE id = %(call_id)s"
_IN_TIME: Final = "Its owner did not decide in time. Nothing was done."
_AFTER_THE_HOUR: Final = (
    "It was approved, and could not be started within the hour that this holds."
)


@dataclass(frozen=True, slots=True)
class Granted:
    """A call that may start now, once."""

    run_id: RunId
    ready: ReadyCall | None
    """None: it waits for a free place among the calls of its step."""


@dataclass(frozen=True, slots=True)
class Denied:
    """A call that ended unsent, and what that left to do."""

    run_id: RunId
    settled: Settled


def grant_call(
    database: Database, call_id: CallId, principal: Principal, args_sha: bytes
) -> Granted | None:
    """Let a call of the principal's run start, with exactly the bytes that have this hash.

    It starts within an hour, or not at all. None: there is no such call of theirs, it has been
    decided, its run was stopped or corrected, time has run out, or the bytes are others. Of many
    callers at once exactly one gets it.
    """
    run_id = _run_of(database, call_id)
    if run_id is None:
        return None
    parameters = _word(call_id, run_id, "granted", principal) | {
        "args_sha": args_sha,
        "use_within": USE_WITHIN_SECONDS,
    }
    _, rows = database.run((hot.LOCK_RUN, parameters), (hot_approvals.GRANT, parameters))
    if not rows:
        return None
    is_ready = rows[0]["state"] == "ready"
    return Granted(run_id, ReadyCall(call_id, rows[0]["tool"]) if is_ready else None)


def deny_call(
    database: Database, call_id: CallId, principal: Principal, args_sha: bytes, words: str = ""
) -> Denied | None:
    """End a call of the principal's run unsent: that and the words are its result for the model.

    None as for `grant_call`.

    Raises:
        InvalidInput: the words are longer than 4,000 characters, or cannot be stored.
    """
    check_storable("What you say", words)
    if len(words) > MAX_WORDS_CHARS:
        raise InvalidInput(f"The words have {len(words)} characters; at most {MAX_WORDS_CHARS}.")
    run_id = _run_of(database, call_id)
    if run_id is None:
        return None
    said = f" Their words: {words}" if words else ""
    refused = Refused(_error("denied", f"Denied by the owner. Nothing was done.{said}"))
    parameters = _word(call_id, run_id, "denied", principal, words) | {"args_sha": args_sha}
    settled = _end(database, (hot_approvals.DENY, parameters), refused)
    return None if settled is None else Denied(run_id, settled)


def expire_approvals(database: Database, *, limit: int) -> list[tuple[RunId, Settled]]:
    """End calls that were not decided, or once approved not started, in time."""
    [rows] = database.run((hot_approvals.OVER, {"limit": limit}))

    def expire(row: Row) -> Settled | None:
        message = _AFTER_THE_HOUR if row["is_granted"] else _IN_TIME
        skipped = Skipped(_error("approval_expired", message))
        parameters = _word(CallId(row["id"]), RunId(row["run_id"]), "expired", None)
        return _end(database, (hot_approvals.EXPIRE, parameters), skipped)

    return [(RunId(row["run_id"]), outcome) for row, outcome in row_by_row(rows, expire)]


def _end(database: Database, say: Statement, outcome: Refused | Skipped) -> Settled | None:
    statement, word = say
    parameters = dict(word) | outcome_parameters(outcome, outcome.text)
    *_, rows = database.run(
        (hot.LOCK_RUN, parameters),
        (statement, parameters),
        (hot_approvals.SETTLE_UNAPPROVED, parameters),
    )
    return settled_of(rows[0]) if rows else None


def _run_of(database: Database, call_id: CallId) -> RunId | None:
    [rows] = database.run((_RUN_OF, {"call_id": call_id}))
    return RunId(rows[0]["run_id"]) if rows else None


def _word(
    call_id: CallId, run_id: RunId, word: ApprovalWord, by: Principal | None, words: str = ""
) -> dict[str, Any]:
    return {
        "approval_id": new_id("apr"),
        "call_id": call_id,
        "run_id": run_id,
        "word": word,
        "said_by": by.user if by else None,
        "tenant": by.tenant if by else None,
        "owner": by.user if by else None,
        "words": words,
    }


def _error(code: str, message: str) -> str:
    error = {"error": {"code": code, "message": message}}
    return json.dumps(error, ensure_ascii=False, separators=(",", ":"))
