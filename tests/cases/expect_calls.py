"""What the tools were asked, what they did, and what is kept of it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tests.cases.found import ERROR_STATES, Found, arguments
from tests.cases.matching import differs, texts

_RECEIPT_STATES: Final = {"done": "completed", "not_done": "failed", "unknown": "unknown"}


def _executions(found: Found, expected: Mapping[str, Any]) -> Iterator[str]:
    for tool, number in expected.items():
        done = found.world.ledger.executions.get(tool, 0)
        yield from differs(f"executions.{tool}", done, number)


def _starts(found: Found, expected: Mapping[str, Any]) -> Iterator[str]:
    for tool, number in expected.items():
        yield from differs(f"starts.{tool}", found.world.ledger.starts.get(tool, 0), number)


def _tool_results(found: Found, expected: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for case_id, wish in expected.items():
        call, copy = found.record.call(case_id), found.result_sent(case_id)
        if call is None or copy is None:
            yield f"tool_results.{case_id}: expected a result, found none"
            continue
        if "error" in wish:
            is_error = call["state"] in ERROR_STATES
            yield from differs(f"tool_results.{case_id}.error", is_error, wish["error"])
        yield from _copy(f"tool_results.{case_id}", copy, wish)


def _copy(name: str, copy: str, wish: Mapping[str, Any]) -> Iterator[str]:
    """The copy of a result that was sent to the model."""
    for text in texts(wish.get("contains")):
        if text not in copy:
            yield f"{name}: expected {text!r} in it, found {copy[:200]!r}"
    for text in texts(wish.get("not_contains")):
        if text in copy:
            yield f"{name}: expected no {text!r} in it, found {copy[:200]!r}"
    if "json" in wish:
        yield from differs(f"{name}.json", _is_json(copy), wish["json"])
    if "max_chars" in wish:
        yield from differs(f"{name}.max_chars", len(copy), {"max": wish["max_chars"]})
    if "says_truncated" in wish:
        says = any(word in copy.lower() for word in ("truncated", "[cut", "missing"))
        yield from differs(f"{name}.says_truncated", says, wish["says_truncated"])


def _actions(found: Found, expected: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for case_id, wish in expected.items():
        call = found.record.call(case_id)
        if "state" in wish:
            state = _action_state(call)
            # A call that never got as far as a receipt may be described in either way.
            if not (state == "not_dispatched" and wish["state"] is None):
                yield from differs(f"actions.{case_id}.state", state, wish["state"])
        if "args" in wish:
            text = None if call is None else call["receipt_args"] or call["args_text"]
            yield from differs(f"actions.{case_id}.args", arguments(text), [wish["args"]])


def _action_state(call: Mapping[str, Any] | None) -> str | None:
    if call is None:
        return None
    if call["verified"] is not None:
        return "verified_not_done" if call["verified"] == "not_happened" else "verified"
    if call["has_receipt"]:
        return _RECEIPT_STATES.get(call["outcome"], "dispatched")
    return "awaiting_approval" if call["state"] == "awaiting_approval" else "not_dispatched"


def _stored(found: Found, expected: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, wish in expected.items():
        text = _stored_text(found, name)
        if text is None:
            yield f"stored.{name}: expected it in the database, found nothing"
            continue
        if "full_chars" in wish:
            yield from differs(f"stored.{name}.full_chars", len(text), wish["full_chars"])
        for part in texts(wish.get("contains")):
            if part not in text:
                yield f"stored.{name}: expected {part!r} in it, found {text[:200]!r}"


def _stored_text(found: Found, name: str) -> str | None:
    """The owner's input, or a call's whole result: of a text result the text itself."""
    if name == "input":
        return next((e["text"] for e in found.record.entries if e["kind"] == "request"), None)
    call = found.record.call(name)
    if call is None or call["body"] is None:
        return None
    value = json.loads(call["body"])
    return value if isinstance(value, str) else str(call["body"])


def _order(found: Found, expected: Sequence[Any]) -> Iterator[str]:
    """Marks in the order of the tools' own log; `start:*` is the first start of any call."""
    log = found.world.ledger.order
    position = -1
    for mark in expected:
        matches = [
            i
            for i, line in enumerate(log)
            if line == mark or (mark, line[:6]) == ("start:*", "start:")
        ]
        if not matches or matches[0] < position:
            yield f"order: expected {list(expected)}, found {log}"
            return
        position = matches[0]


def _tool_phase(found: Found, expected: float) -> Iterator[str]:
    """From the first start of a step's calls to the last end of them, the longest of all steps."""
    longest = 0.0
    for step in {call["step"] for call in found.record.calls}:
        calls = [c for c in found.record.calls if c["step"] == step and c["started_at"]]
        if calls and all(c["settled_at"] for c in calls):
            began = min(c["started_at"] for c in calls)
            ended = max(c["settled_at"] for c in calls)
            longest = max(longest, (ended - began).total_seconds())
    yield from differs("max_tool_phase_seconds", round(longest, 2), {"max": expected})


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


CHECKS: Final[dict[str, Callable[[Found, Any], Iterator[str]]]] = {
    "executions": _executions,
    "starts": _starts,
    "tool_results": _tool_results,
    "actions": _actions,
    "stored": _stored,
    "order": _order,
    "max_tool_phase_seconds": _tool_phase,
}
