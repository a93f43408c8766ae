import time

import pytest

from providers.markup import drop_stray_tags
from tests.providers.wire import asked, call, calls, chunk, end, read, read_body, text

OSLO = '{"city":"Oslo"}'


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_reasoning_is_found_in_every_field(field: str) -> None:
    turn = read(chunk({field: "hm "}), chunk({field: "ok"}), text("4"), end())
    assert (turn.text, turn.reasoning) == ("4", "hm ok")


def test_reasoning_in_two_fields_is_not_said_twice() -> None:
    turn = read(chunk({"reasoning": "hm", "reasoning_content": "hm"}), text("4"), end())
    assert turn.reasoning == "hm"


def test_reasoning_details_alone_are_read_and_kept() -> None:
    detail = {"type": "reasoning.text", "text": "hm", "signature": "s"}
    turn = read(chunk({"reasoning_details": [detail]}), text("4"), end())
    assert turn.reasoning == "hm"
    assert turn.extra["reasoning_details"] == [detail]


def test_content_parts_of_a_whole_message_are_read() -> None:
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "4"}, "2", None]
    turn = read_body({"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]})
    assert (turn.text, turn.reasoning) == ("42", "hm")


@pytest.mark.parametrize(
    ("written", "answer", "reasoning"),
    [
        ("<think>a</think>b", "b", "a"),
        ("\n<think>\na\n</think>\n\nb", "b", "a"),
        ("<think></think>\n\nb", "b", None),
        ("<think>a</think><think>c</think>b", "b", "ac"),
        ("<thinking>a</thinking>b", "b", "a"),
        ("a plan\n</think>\n\nb", "b", "a plan"),
        ("b <think>a</think>", "b <think>a</think>", None),
        ("Tags: `</think>` ends it", "Tags: `</think>` ends it", None),
        ("```\n</think>\n```\nb", "```\n</think>\n```\nb", None),
        ("<thin ice", "<thin ice", None),
        ("<", "<", None),
    ],
)
def test_only_a_leading_think_block_is_reasoning(
    written: str, answer: str, reasoning: str | None
) -> None:
    turn = read(*(text(letter) for letter in written), end())
    assert (turn.text, turn.reasoning) == (answer, reasoning)


def test_think_block_without_an_end_is_no_answer() -> None:
    turn = read(text("<think>and on and on"), end())
    assert turn.failure is not None
    assert (turn.failure.error_class, turn.reasoning) == ("empty_response", "and on and on")


def test_answer_behind_reasoning_and_with_a_call_is_split_too() -> None:
    entry = call("{}", name="now", model_id="a", index=0)
    turn = read(text("<think>a</think>\n\n"), calls(entry), end("tool_calls"))
    assert (turn.text, turn.reasoning, len(turn.calls)) == ("", "a", 1)


@pytest.mark.parametrize(
    "written",
    [
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>',
        '<tool_call>\n{"name": "get_weather", "parameters": {"city": "Oslo"}}\n</tool_call>',
        '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}</tool_call>',
        '<function=get_weather>{"city": "Oslo"}</function>',
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n"
        "</tool_call>",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>",
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Oslo"}}]',
        '<function_call>{"name": "functions.get_weather", "arguments": {"city": "Oslo"}}'
        "</function_call>",
    ],
)
def test_whole_markup_of_a_known_tool_is_a_call(written: str) -> None:
    turn = read(text(f"Let me look.\n{written}"), end())
    assert asked(turn) == [("get_weather", "ok", OSLO)]
    assert (turn.text, turn.finish, turn.calls[0].is_recovered) == (
        "Let me look.",
        "tool_calls",
        True,
    )


@pytest.mark.parametrize(
    "written",
    [
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}',
        '<tool_call>{"name": "get_weather", "arguments": {"city": </tool_call>',
        '<tool_call>{"name": "rm_rf", "arguments": {}}</tool_call>',
        '`<tool_call>{"name": "now", "arguments": {}}</tool_call>`',
        '~~~xml\n<tool_call>{"name": "now", "arguments": {}}</tool_call>\n~~~',
        '```\n<tool_call>{"name": "now", "arguments": {}}</tool_call>',
        '{"name": "now", "arguments": {}}',
        "<tool_call>now</tool_call>",
    ],
)
def test_markup_that_is_not_surely_a_call_stays_text(written: str) -> None:
    turn = read(text(written), end())
    assert (turn.text, turn.calls, turn.finish) == (written, (), "stop")


def test_markup_in_reasoning_is_no_call() -> None:
    block = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    assert read(chunk({"reasoning": block}), text("done"), end()).calls == ()


def test_markup_beside_a_proper_call_is_no_second_call() -> None:
    block = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    entry = call(OSLO, name="get_weather", model_id="a", index=0)
    assert len(read(text(block), calls(entry), end()).calls) == 1


def test_two_blocks_are_two_calls() -> None:
    block = '<tool_call>{"name": "now", "arguments": {}}</tool_call>\n'
    assert len(read(text(block * 2), end()).calls) == 2


def test_markup_of_a_cut_answer_does_not_run() -> None:
    block = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    assert asked(read(text(block), end("length")))[0][1] == "incomplete"


@pytest.mark.parametrize(
    ("written", "kept"),
    [("</tool_call>", ""), ("\n</tool_call>\n", ""), ("ok</function>", "ok"),
     ("a < b </p> `</tool_call>`", "a < b </p> `</tool_call>`")],
)  # fmt: skip
def test_stray_closing_tags_beside_a_call_are_dropped(written: str, kept: str) -> None:
    assert drop_stray_tags(written) == kept


def test_characters_no_database_can_store_are_replaced_and_marked() -> None:
    turn = read(text("a\ud83c"), text("b\x00c"), end())
    assert (turn.text, turn.is_repaired) == ("a\ufffdb\ufffdc", True)
    assert not read(text("a\ud83c"), text("\udf0d"), end()).is_repaired


def test_opaque_fields_of_the_message_are_kept() -> None:
    turn = read(chunk({"extra_content": {"google": {"thought_signature": "s"}}}), text("a"), end())
    assert turn.extra == {"extra_content": {"google": {"thought_signature": "s"}}}


def test_opaque_fields_that_cannot_be_stored_are_dropped() -> None:
    line = b'data: {"choices":[{"delta":{"content":"a","odd":NaN,"half":"\\ud83c","ok":1}}]}\n\n'
    assert read(line, end()).extra == {"ok": 1}


@pytest.mark.parametrize(
    "written",
    [
        "<tool_call>" * 20_000 + "</tool",
        "<function=now>" * 15_000 + "</tool",
        "<tool_call><function=now>" + "<parameter=a>" * 15_000 + "</function></tool_call>",
        "<tool_call>now" + "<arg_key>" * 15_000 + "</tool_call>",
        "<|tool_call_begin|>" * 10_000 + "call_end|>",
        "[TOOL_CALLS][" * 10_000 + "</tool",
        "```\n" * 50_000 + "</tool",
        "a\n" * 50_000 + "x </think> y",
    ],
    ids=lambda written: written[:20],
)
def test_model_that_repeats_itself_for_ever_is_read_in_linear_time(written: str) -> None:
    start = time.process_time()
    turn = read(text(written), end())
    assert time.process_time() - start < 2.0  # some of these once took minutes
    assert turn.text == written
    assert turn.calls == ()


@pytest.mark.parametrize(
    "written",
    [
        "<tool_call><function=get_weather><parameter=city>a<parameter=b></parameter></function>"
        "</tool_call>",
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>a</arg_value> and more"
        "</tool_call>",
        "<function=get_weather><parameter=city>a</parameter><parameter=city>b</parameter>"
        "</function>",
    ],
)
def test_block_with_words_between_its_values_is_no_call(written: str) -> None:
    assert read(text(written), end()).calls == ()
