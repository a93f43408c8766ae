"""Why a verb of an owner did nothing, and what to do first: raised as the error that says so.

Every function raises NotFound where the asker may not know of the run, NotPermitted where only its
owner may do this, and Conflict where the run does not stand so.
"""

from typing import Final, NoReturn

from models.database import Database, Row
from umbel.contracts import CallId, Principal, RunId
from umbel.errors import Conflict, NotFound, NotPermitted

_RUN: Final = """
SELECT r.status, r.reason, r.owner, r.stop_at IS NOT NULL AS is_stopped, r.unknowns, r.open_calls,
  t.visibility, %(user)s = ANY (t.collaborators) AS is_collaborator,
  (SELECT a.id FROM runs a WHERE a.thread_id = r.thread_id AND a.id <> r.id
    AND a.status IN ('running', 'waiting', 'cancelling')) AS active
FROM runs r JOIN threads t ON t.id = r.thread_id
WHERE r.id = %(run_id)s AND r.tenant = %(tenant)s
"""
_BLOCKING: Final = """
SELECT id, state FROM calls
WHERE run_id = %(run_id)s
  AND state IN ('unknown', 'awaiting_approval', 'planned', 'ready', 'started')
ORDER BY step, position LIMIT 20
"""
_RECEIPT: Final = """
SELECT outcome, verified, verified_by FROM receipts
WHERE call_id = %(call_id)s AND run_id = %(run_id)s
"""
_ASKED: Final = """
SELECT c.state, c.args_sha, a.word, a.said_by FROM calls c
JOIN runs r ON r.id = c.run_id AND r.tenant = %(tenant)s AND r.owner = %(user)s
LEFT JOIN LATERAL (SELECT * FROM approvals a WHERE a.call_id = c.id
  ORDER BY a.said_at DESC LIMIT 1) a ON true
WHERE c.id = %(call_id)s AND c.needs_approval
"""


def explain_stop(database: Database, run_id: RunId, principal: Principal) -> None:
    """Raise why a run was not stopped; it was stopped before, if this returns."""
    row = _look(database, run_id, principal)
    _refuse_others(row, run_id, principal)
    if not row["is_stopped"]:
        raise Conflict(f"{run_id} is {row['status']}: there is nothing to stop.")


def explain_steer(database: Database, run_id: RunId, principal: Principal) -> NoReturn:
    """Raise why a run was not corrected."""
    row = _look(database, run_id, principal)
    if row["owner"] != principal.user and row["visibility"] != "public":
        raise NotPermitted(f"The thread of {run_id} is private: only its owner may correct it.")
    if row["is_stopped"]:
        raise Conflict(
            f"{run_id} is {row['status']}: it was stopped. `umbel runs resume {run_id}` lets it go "
            f"on, `umbel runs follow-up {run_id}` asks for something new."
        )
    raise Conflict(
        f"{run_id} is {row['status']} and hears nothing more; `umbel runs follow-up {run_id}` asks "
        "for something new in its thread."
    )


def explain_resume(database: Database, run_id: RunId, principal: Principal) -> NoReturn:
    """Raise why a run was not resumed, with the calls that keep it."""
    row = _look(database, run_id, principal)
    _refuse_others(row, run_id, principal)
    if row["status"] == "completed":
        raise Conflict(
            f"{run_id} is completed; `umbel runs follow-up {run_id}` asks for more in its thread."
        )
    if row["status"] not in ("paused", "failed", "cancelled"):
        raise Conflict(f"{run_id} is {row['status']}: there is nothing to resume.")
    if row["unknowns"] or row["open_calls"]:
        [calls] = database.run((_BLOCKING, {"run_id": run_id}))
        raise Conflict(_what_blocks(run_id, calls))
    if row["active"] is not None:
        raise Conflict(
            f"{row['active']} works in the thread of {run_id}: wait for it, or stop it first with "
            f"`umbel runs stop {row['active']}`."
        )
    raise Conflict(f"{run_id} has changed meanwhile; try again.")


def explain_verify(
    database: Database, run_id: RunId, call_id: CallId, principal: Principal
) -> NoReturn:
    """Raise why the outcome of a change was not settled by its owner's word."""
    row = _look(database, run_id, principal)
    _refuse_others(row, run_id, principal)
    [receipts] = database.run((_RECEIPT, {"run_id": run_id, "call_id": call_id}))
    if not receipts:
        raise NotFound(f"There is no receipt of {call_id!r}: no such change was sent.")
    receipt = receipts[0]
    if receipt["verified"] is not None:
        said = f"{receipt['verified_by']} found: {receipt['verified']}"
        raise Conflict(f"The outcome of {call_id} is settled: {said}.")
    known = receipt["outcome"] or "not reported yet; wait for it"
    raise Conflict(f"The outcome of {call_id} is not unknown: {known}.")


def explain_approval(
    database: Database, call_id: CallId, principal: Principal, args_sha: bytes
) -> NoReturn:
    """Raise why a call was neither granted nor denied.

    To everybody but its owner there is no such call, whoever else may know of the run.
    """
    parameters = {"call_id": call_id, "tenant": principal.tenant, "user": principal.user}
    [calls] = database.run((_ASKED, parameters))
    if not calls:
        raise NotFound(f"No call {call_id!r} asks for your approval; see `umbel approvals list`.")
    call = calls[0]
    if bytes(call["args_sha"]) != args_sha:
        raise Conflict(
            f"{call_id} would send other bytes than those of this hash; look again with "
            f"`umbel approvals show {call_id}`."
        )
    if call["word"] is not None:
        by = f" by {call['said_by']}" if call["said_by"] else ""
        raise Conflict(f"{call_id} was {call['word']}{by} before; it is {call['state']}.")
    raise Conflict(f"{call_id} is {call['state']}: its run has moved on, or time has run out.")


def _look(database: Database, run_id: RunId, principal: Principal) -> Row:
    """The run, for those who may know of it."""
    parameters = {"run_id": run_id, "tenant": principal.tenant, "user": principal.user}
    [rows] = database.run((_RUN, parameters))
    if rows and (rows[0]["owner"] == principal.user or rows[0]["is_collaborator"]):
        return rows[0]
    raise NotFound(f"There is no run {run_id!r}.")


def _refuse_others(row: Row, run_id: RunId, principal: Principal) -> None:
    if row["owner"] != principal.user:
        raise NotPermitted(f"Only the owner of {run_id} may do this; you may correct it.")


def _what_blocks(run_id: RunId, calls: list[Row]) -> str:
    unknown = [row["id"] for row in calls if row["state"] == "unknown"]
    if unknown:
        return (
            f"Nobody knows yet whether these changes of {run_id} happened: {', '.join(unknown)}. "
            "Find out, and say so with `umbel receipts verify CALL happened|not_happened|partial "
            "WHAT-YOU-FOUND`; then resume."
        )
    others = ", ".join(f"{row['id']} ({row['state']})" for row in calls)
    return f"Calls of {run_id} are not settled yet: {others}. Wait for them, then resume."
