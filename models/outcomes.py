"""How a call ended, in the words of the statements that settle it."""

from typing import Any, Final, assert_never

from loop.outcome import Errored, Refused, Returned, Skipped, ToolOutcome, Unknown

UNKNOWN_DETAIL: Final = (
    "A change was sent and nobody knows whether it happened. Find out in the outside system; "
    "`umbel runs get RUN` names the call and its exact arguments. It is not sent again."
)
KNOWN_DETAIL: Final = (
    "The outcome that was unknown has become known since; the run waits to be resumed."
)
SKIPPED_BODY: Final = (
    '{"error":{"code":"skipped","message":"Not started: the outcome of another change of this step '
    'is unknown."}}'
)


def outcome_parameters(outcome: ToolOutcome, view: str) -> dict[str, Any]:
    """What every settling statement is told of an outcome."""
    beside: dict[str, Any] = {"capture_id": None, "sha256": None, "total_chars": None}
    body: str | None
    match outcome:
        case Returned(text=text, is_escaped=is_escaped):
            state, body = "returned", text
            beside["capture_id"] = outcome.capture_id
            if outcome.chunked is not None:
                body = None
                beside["sha256"] = bytes.fromhex(outcome.chunked.sha256)
                beside["total_chars"] = outcome.chunked.total_chars
        case Refused(text=text) | Errored(text=text) | Skipped(text=text):
            state, body, is_escaped = type(outcome).__name__.lower(), text, False
        case Unknown():
            state, body, is_escaped = "unknown", "", False
        case _:
            assert_never(outcome)
    return {
        "state": state,
        "body": body,
        "view": view,
        "is_escaped": is_escaped,
        **beside,
        "unknown_detail": UNKNOWN_DETAIL,
        "known_detail": KNOWN_DETAIL,
        "skipped_body": SKIPPED_BODY,
        "pause_reason": None,
        "pause_detail": None,
    }


def change_outcome(outcome: ToolOutcome) -> dict[str, Any]:
    """The receipt's word for it: done, certainly not done, or unknown."""
    match outcome:
        case Returned():
            return {"outcome": "done", "resources": None}
        case Unknown():
            return {"outcome": "unknown", "resources": None}
        case Refused() | Errored() | Skipped():
            return {"outcome": "not_done", "resources": None}
        case _:
            assert_never(outcome)
