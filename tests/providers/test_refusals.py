from dataclasses import replace
from typing import Any

import pytest

from loop.response import ErrorClass, Failure
from providers.failures import failure_of
from providers.profiles import DEFAULT, default_wire, profile_for
from providers.refusals import Refusals
from umbel.strict_json import Json

HERE = "https://user:secret@api.example.org/v1/"
ADDRESS = "https://api.example.org/v1"
OPENAI = profile_for("https://api.openai.com/v1", "responses")
SENT = (
    b'{"max_tokens":5,"stream_options":{},"parallel_tool_calls":true,"prompt_cache_key":"k",'
    b'"tools":[{"strict":false}],"include":["reasoning.encrypted_content"],"input":[{"id":"rs_1"}]}'
)


def refused(message: str, status: int = 400, kind: ErrorClass = "bad_request") -> Failure:
    return Failure(error_class=kind, is_retryable=False, http_status=status, message=message)


class SharedStore:
    """What two processes share."""

    def __init__(self) -> None:
        self.kept: dict[str, frozenset[str]] = {}
        self.loads: list[str] = []

    def load(self, address: str) -> frozenset[str]:
        self.loads.append(address)
        return self.kept.get(address, frozenset())

    def save(self, address: str, field: str) -> None:
        self.kept[address] = self.kept.get(address, frozenset()) | {field}


@pytest.mark.parametrize(
    ("message", "field", "changed"),
    [
        ("Unsupported parameter: 'max_tokens' is not supported with this model. Use "
         "'max_completion_tokens' instead.", "max_tokens",
         {"max_tokens_field": "max_completion_tokens"}),
        ("Unrecognized request argument supplied: stream_options", "stream_options",
         {"asks_for_usage": False}),
        ("Extra inputs are not permitted: include_usage", "stream_options",
         {"asks_for_usage": False}),
        ("Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
         "parallel_tool_calls", {"parallel_tool_calls": "omit"}),
        ("Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key", {"sends_cache_key": False}),
        ("body.tools.0.strict: Extra inputs are not permitted", "strict", {"strict": "omit"}),
        ("Encrypted content is not supported with this model.", "encrypted_content",
         {"asks_for_encrypted_reasoning": False}),
        ("Item with id 'rs_68' not found. Items are not persisted when `store` is set to false.",
         "item_ids", {"returns_item_ids": False}),
        ("Item 'rs_68' of type 'reasoning' was provided without its required following item.",
         "item_ids", {"returns_item_ids": False}),
    ],
)  # fmt: skip
def test_field_that_is_refused_by_name_is_left_out(
    message: str, field: str, changed: dict[str, Any]
) -> None:
    refusals = Refusals()
    profile = replace(OPENAI, max_tokens_field="max_tokens")
    assert refusals.applied_to(profile, HERE) == profile
    assert refusals.learn(HERE, SENT, refused(message)) == field
    assert refusals.applied_to(profile, HERE) == replace(profile, **changed)
    assert refusals.applied_to(profile, "https://api.elsewhere.org/v1") == profile


def test_refusal_is_news_only_once() -> None:
    refusals = Refusals()
    message = refused("Unknown parameter: 'prompt_cache_key'.")
    assert refusals.learn(HERE, SENT, message) == "prompt_cache_key"
    assert refusals.learn(HERE, SENT, message) is None


@pytest.mark.parametrize(
    "failure",
    [
        refused("max_tokens: 68000 > 64000"),
        refused("Unknown field: reasoning_content"),
        refused("Unsupported value: stream_options", 500, "server"),
        refused("maximum context length exceeded: max_tokens is not supported", 400,
                "context_length"),
        refused("Unknown parameter: 'top_k'."),
    ],
)  # fmt: skip
def test_nothing_is_learnt_from_what_is_no_refusal_of_a_sent_field(failure: Failure) -> None:
    assert Refusals().learn(HERE, SENT, failure) is None


def test_request_that_is_too_large_is_never_worth_repeating_whatever_else_it_says() -> None:
    body: Json = {"error": {"message": "This model's maximum context length is 8192 tokens. "
                                 "Unsupported max_tokens."}}  # fmt: skip
    found = failure_of(400, {}, body)
    assert (found.error_class, found.is_retryable) == ("context_length", False)
    assert Refusals().learn(HERE, SENT, found) is None


def test_refusals_outlive_the_process_in_a_store_that_holds_no_password() -> None:
    store = SharedStore()
    Refusals(store).learn(HERE, SENT, refused("Unknown parameter: 'prompt_cache_key'."))
    assert store.kept == {ADDRESS: frozenset({"prompt_cache_key"})}
    later = Refusals(store)
    for _ in range(3):
        assert later.applied_to(OPENAI, ADDRESS).sends_cache_key is False
    assert store.loads == [ADDRESS] * 2


def test_responses_are_spoken_by_default_only_at_openai_itself() -> None:
    assert default_wire("https://api.openai.com/v1") == "responses"
    assert default_wire("https://api.openai.com.example.org/v1") == "chat"
    assert default_wire("http://localhost:11434/v1") == "chat"


def test_unknown_endpoint_is_sent_no_knob_it_may_not_know() -> None:
    knobs = (DEFAULT.parallel_tool_calls, DEFAULT.strict, DEFAULT.sends_cache_key)
    assert knobs == ("omit", "omit", False)
    assert profile_for("https://api.openai.com/v1").strict == "omit"
    assert OPENAI.strict == "off"
