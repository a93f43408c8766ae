from hypothesis import given
from hypothesis import strategies as st

from loop.request import (
    AssistantCall,
    AssistantMessage,
    ModelRequest,
    OfferedTool,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from loop.weight import (
    LEAST_BYTES_PER_TOKEN,
    MOST_BYTES_PER_TOKEN,
    USUAL_BYTES_PER_TOKEN,
    Weight,
    weigh,
)

TOOL = OfferedTool("look", "Looks.", {"type": "object"})


def test_every_text_of_a_request_is_counted_in_bytes() -> None:
    call = AssistantCall("call_1", "look", '{"a":1}', {"sig": "xyz"})
    messages = (
        SystemMessage("äö"),
        UserMessage("12345"),
        AssistantMessage("123", (call,), extra={"e": 1}),
        ToolMessage("call_1", "look", "1234567"),
    )
    weight = weigh(ModelRequest("m", messages, (TOOL,)))
    schema = len('["look", "Looks.", {"type": "object"}]')
    extras = len('{"sig": "xyz"}') + len('{"e": 1}')
    assert weight == Weight(
        text_bytes=schema + 4 + 5 + 3 + len('look{"a":1}') + extras + 7, messages=4
    )


def test_messages_pictures_and_the_request_itself_cost_on_top_of_their_text() -> None:
    assert Weight(text_bytes=100, messages=3, pictures=2).tokens(4.0) == 25 + 3 * 8 + 2 * 2_048 + 32


@given(st.integers(2_000, 10_000_000), st.integers(1, 500), st.integers(1, 5_000_000))
def test_what_an_endpoint_counted_is_told_again_within_safe_bounds(
    text_bytes: int, messages: int, input_tokens: int
) -> None:
    weight = Weight(text_bytes=text_bytes, messages=messages)
    rate = weight.bytes_per_token(input_tokens)
    assert rate is not None
    assert LEAST_BYTES_PER_TOKEN <= rate <= MOST_BYTES_PER_TOKEN
    if LEAST_BYTES_PER_TOKEN < rate < MOST_BYTES_PER_TOKEN:
        assert abs(weight.tokens(rate) - input_tokens) <= 1
    assert weight.tokens(rate) >= text_bytes / MOST_BYTES_PER_TOKEN


def test_small_requests_and_pictures_say_nothing_about_bytes() -> None:
    assert Weight(text_bytes=1_999, messages=1).bytes_per_token(500) is None
    assert Weight(text_bytes=9_000, messages=1, pictures=1).bytes_per_token(500) is None
    assert Weight(text_bytes=9_000, messages=1).bytes_per_token(0) is None
    assert LEAST_BYTES_PER_TOKEN < USUAL_BYTES_PER_TOKEN < MOST_BYTES_PER_TOKEN
