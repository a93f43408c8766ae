"""Changes that wait for another one of their resource key."""

from typing import Final

from models import hot_resources
from models.calls import CallRow, ReadyCall
from models.database import Database
from umbel.contracts import CallId

LOOK_AFTER_SECONDS: Final = 30.0
"""A change whose key is closed is looked at again after so long, if nobody has rung before."""


def put_off_change(database: Database, call: CallRow) -> bool:
    """Let a ready change wait whose key is closed; False when that is not why it did not start."""
    asked = {"call_id": call.call_id, "look_after": LOOK_AFTER_SECONDS}
    [rows] = database.run((hot_resources.PUT_OFF, asked))
    return bool(rows)


def next_change(database: Database, call_id: CallId) -> ReadyCall | None:
    """The change of the same key to ring for, if this one does not close it any more."""
    [rows] = database.run((hot_resources.NEXT_CHANGE, {"call_id": call_id}))
    return ReadyCall(CallId(rows[0]["id"]), rows[0]["tool"]) if rows else None


def sent_again(database: Database, call_id: CallId) -> CallId | None:
    """The call that has sent this very change again, though it was done: its tool said so late."""
    [rows] = database.run((hot_resources.SENT_AGAIN, {"call_id": call_id}))
    return CallId(rows[0]["id"]) if rows else None
