"""The scripted model refuses what a strict provider would refuse, and nothing else."""

import json
from typing import Any

import pytest

from tests.cases.strict_provider import Violation, Window, find_violation, parse_body, size_tokens

USER = {"role": "user", "content": "Go."}


def asking(*ids: str) -> dict[str, Any]:
    function = {"name": "look", "arguments": "{}"}
    return {"role": "assistant", "tool_calls": [{"id": i, "function": function} for i in ids]}


def result(call_id: str, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def broken_rule(*messages: dict[str, Any], **more: Any) -> int | None:
    violation = find_violation({"stream": True, "messages": list(messages), **more}, Window())
    return violation.rule if violation else None


def test_calls_with_their_results_in_order_are_accepted() -> None:
    system = {"role": "system", "content": "Be good."}
    assert broken_rule(system, USER, asking("a", "b"), result("a"), result("b"), USER) is None


@pytest.mark.parametrize(
    ("rule", "messages"),
    [
        (1, [asking("a"), result("a")]),
        (2, [USER, asking("a", "b"), result("a")]),
        (2, [USER, asking("a"), USER]),
        (3, [USER, result("a")]),
        (3, [USER, asking("a", "b"), result("b"), result("a")]),
        (3, [USER, asking("a"), result("a"), result("a")]),
        (4, [USER, asking("a"), result("a"), asking("a"), result("a")]),
        (4, [USER, asking("a", "a"), result("a"), result("a")]),
        (5, [USER, asking("a"), result("a", [{"type": "text", "text": "ok"}])]),
    ],
)
def test_broken_order_of_messages_is_refused(rule: int, messages: list[dict[str, Any]]) -> None:
    assert broken_rule(*messages) == rule


def test_request_that_does_not_stream_or_forces_a_tool_is_refused() -> None:
    assert broken_rule(USER, stream=False) == 8
    assert broken_rule(USER, tool_choice="required") == 8
    assert broken_rule(USER, tool_choice="none") is None


@pytest.mark.parametrize("raw", [b"{", b'"text"', b'{"a": "\xff"}', b'{"a": "\\ud83d"}'])
def test_body_that_is_no_clean_json_object_is_refused(raw: bytes) -> None:
    violation = parse_body(raw)
    assert isinstance(violation, Violation)
    assert violation.rule == 6


def test_size_counts_texts_calls_schemas_and_pictures_against_the_real_window() -> None:
    picture = {
        "role": "user",
        "content": [{"type": "image_url"}, {"type": "text", "text": "x" * 8}],
    }
    schema = {"function": {"name": "look", "parameters": {}}}
    body = {"stream": True, "messages": [picture], "tools": [schema]}
    schema_tokens = -(-len(json.dumps(schema["function"])) // 4)
    assert size_tokens(body, Window(image=800)) == 4 + 800 + 2 + schema_tokens

    model = {"context_window": 100_000, "real_window": 500, "output_reserve": 100}
    violation = find_violation(body, Window.of(model))
    assert violation is not None
    assert violation.is_size
