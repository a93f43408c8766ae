"""What Flower shows of a step: one line, nothing of the content."""

from typing import assert_never

from loop.decision import Answer, Decision, Discard, Dispatch, Pause, Retry
from loop.response import ModelTurn


def line_of(decision: Decision, reply: ModelTurn) -> str:
    """What was decided and what it cost."""
    tokens = "unknown" if reply.usage.total_tokens is None else str(reply.usage.total_tokens)
    match decision:
        case Dispatch(calls=calls):
            what = f"dispatch {len(calls)}"
        case Pause(reason=reason):
            what = f"pause {reason}"
        case Retry(cause=cause):
            what = f"retry {cause}"
        case Answer() | Discard():
            what = type(decision).__name__.lower()
        case _:
            assert_never(decision)
    return f"{what}, {tokens} tok"
