"""A `ModelTurn` in the form of a case's expect.json, so that the two can be compared."""

import json
from typing import Any

from loop.response import Failure, ModelTurn, ProposedCall, Usage
from providers.call_names import replay_name
from providers.storable import storable


def case_view(turn: ModelTurn) -> dict[str, Any]:
    """The turn as the cases write results."""
    return {
        "text": turn.text,
        "reasoning": turn.reasoning,
        "tool_calls": [_call(call) for call in turn.calls],
        "usage": _usage(turn.usage),
        "finish": turn.finish,
        "error": _error(turn.failure),
        "message": turn.failure.message if turn.failure else None,
        "extra": turn.extra,
    }


def _call(call: ProposedCall) -> dict[str, Any]:
    return {
        "id": call.model_id,
        "name": call.name,
        "arguments": _arguments(call),
        "status": "ok" if _is_refused_for_repair_alone(call) else call.status,
        "extra": call.extra,
        "recovered": call.is_recovered,
        "replay_name": replay_name(call.name),
    }


def _is_refused_for_repair_alone(call: ProposedCall) -> bool:
    """The cases show a repaired call as it reads and leave its refusal to a later check.

    We refuse it at once; a problem with its JSON would be named in other words.
    """
    return call.status == "invalid_arguments" and call.is_repaired and _repaired(call) is not None


def _arguments(call: ProposedCall) -> Any:
    if call.arguments_text is not None:
        return json.loads(call.arguments_text)
    return _repaired(call) if call.is_repaired else None


def _repaired(call: ProposedCall) -> Any:
    try:
        value = json.loads(call.raw_arguments, strict=False)
    except ValueError:
        return None
    return json.loads(
        storable(json.dumps(value, ensure_ascii=False))[0].replace("\\u0000", "\ufffd")
    )


def _usage(usage: Usage) -> dict[str, int | None] | None:
    """None where nothing was reported: the cases know no estimates."""
    if usage.is_estimated or usage == Usage():
        return None
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "total": usage.total_tokens,
        "cached_input": usage.cached_input_tokens,
        "reasoning": usage.reasoning_tokens,
    }


def _error(failure: Failure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "class": failure.error_class,
        "retryable": failure.is_retryable,
        "retry_after_s": failure.retry_after_seconds,
        "message": failure.message,
    }
