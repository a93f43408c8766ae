"""The request for a summary: what it is made from, and what counts as an answer to it."""

import json
from dataclasses import replace

import pytest

from loop.budget import Budget
from loop.cutting import kept_from, left_out_before
from loop.request import SystemMessage, UserMessage
from loop.response import Failure, ModelTurn, ProposedCall
from loop.shape import Sources
from loop.summarising import (
    SOURCE_CHARS,
    sources_before,
    sources_text,
    summary_request,
    unresolved_in,
    what_is_wrong,
)
from loop.transcript import (
    GO_ON,
    NOT_KNOWN,
    RecordedCall,
    RecordedStep,
    RecordedSummary,
    build_request,
)
from loop.weight import weigh
from tests.loop.histories import REQUEST, StepWish, a_record, place, texts_of

BUDGET = Budget(tokens=3_000, low_tokens=1_800, summary_tokens=300, schema_tokens=1_500)
SOURCES = Sources(before=place(3), chars=1_000, words=120)


def test_what_happened_is_data_of_a_user_message_and_no_tools_are_offered() -> None:
    record = a_record([StepWish(corrections=1)] * 4)
    request = summary_request(record, left_out_before(record, place(3)), SOURCES)
    system, data = request.messages
    assert isinstance(system, SystemMessage)
    assert isinstance(data, UserMessage)
    assert "At most 120 words" in system.text
    assert "run_own" not in system.text
    assert (request.purpose, request.tools, request.cache_key) == ("compact", (), None)


def test_marks_in_what_happened_come_out_as_they_stand() -> None:
    record = a_record([StepWish()] * 2, [StepWish()])
    odd = 'Keep {words} and "quotes"\nand <b>lines</b>'
    earlier = record.earlier[0]
    asked = RecordedSummary(odd)
    record = kept_from(a_record([StepWish()] * 2, [StepWish()]), place(1, "run_0"), asked)
    text = sources_text(left_out_before(record, place(2)), 1_000)
    notes = text.splitlines()[0].removeprefix("Earlier notes: ")
    assert json.loads(notes) == odd
    entries = [json.loads(line) for line in text.splitlines()[2:]]
    assert entries[0] == {"role": "user", "text": earlier.requests[0]}


def test_a_merge_reads_the_earlier_summary_and_only_what_was_left_out_since() -> None:
    record = a_record([StepWish()] * 9)
    first = left_out_before(record, place(4))
    record = kept_from(record, place(4), RecordedSummary("notes so far"))
    second = left_out_before(record, place(7))
    assert [step.step for run in first.runs for step in run.steps] == [1, 2, 3]
    assert [step.step for run in second.runs for step in run.steps] == [4, 5, 6]
    text = sources_text(second, 1_000)
    assert text.startswith('Earlier notes: "notes so far"')
    assert "run_own.3" not in text
    assert "run_own.7" not in text


def test_a_summary_stands_behind_the_request_and_is_the_assistants_own_word() -> None:
    record = kept_from(
        a_record([StepWish(corrections=1)] * 4), place(3), RecordedSummary("Two pages were read.")
    )
    request = build_request(record)
    roles = [type(message).__name__ for message in request.messages[:7]]
    assert roles == [
        "SystemMessage",
        *["UserMessage"] * 3,
        "AssistantMessage",
        *["UserMessage"] * 2,
    ]
    assert texts_of(request)[1:7] == [
        REQUEST,
        "correct run_own.1.0!",
        "correct run_own.2.0!",
        "Two pages were read.",
        GO_ON,
        "correct run_own.3.0!",
    ]


def test_a_change_whose_outcome_nobody_knew_is_named_for_ever() -> None:
    lost = RecordedCall("call_lost", "send_mail", '{"to":"bob"}', NOT_KNOWN)
    proposed = ProposedCall(model_id="c", name="send_mail", status="ok", arguments_text="{}")
    record = a_record([StepWish()] * 3, [StepWish()])
    step = RecordedStep(2, None, ModelTurn(calls=(proposed,)), (lost,))
    before = record.earlier[0]
    record = replace(record, earlier=(replace(before, steps=(*before.steps, step)),))
    line = 'send_mail {"to":"bob"} (call call_lost)'
    left_out = left_out_before(record, place(2))
    assert unresolved_in(left_out) == line
    record = kept_from(record, place(2), RecordedSummary("notes", unresolved_in(left_out)))
    assert line in "\n".join(texts_of(build_request(record)))
    assert unresolved_in(left_out_before(record, place(3))) == line


def test_sources_are_shortened_until_the_request_for_a_summary_fits() -> None:
    record = a_record([StepWish(chars=9_000)] * 4)
    found = sources_before(record, place(4), BUDGET, 4.0)
    assert found is not None
    assert found.chars == 1_000
    request = summary_request(record, left_out_before(record, place(4)), found)
    assert weigh(request).tokens(4.0) <= BUDGET.tokens
    small = Budget(tokens=100, low_tokens=60, summary_tokens=10, schema_tokens=50)
    assert sources_before(record, place(4), small, 4.0) is None
    assert sorted(SOURCE_CHARS, reverse=True) == list(SOURCE_CHARS)


@pytest.mark.parametrize(
    ("reply", "wrong"),
    [
        (ModelTurn(text="Notes."), None),
        (ModelTurn(text=" \n"), "it is empty"),
        (ModelTurn(text="Notes", finish="length"), "it is too long"),
        (ModelTurn(text="x" * 12_000), "it is too long"),
        (
            ModelTurn(calls=(ProposedCall(model_id="c", name="look", status="ok"),)),
            "the model asked for tools",
        ),
        (
            ModelTurn(failure=Failure(error_class="server", is_retryable=True, message="down")),
            "server: down",
        ),
    ],
)
def test_only_some_words_are_a_summary(reply: ModelTurn, wrong: str | None) -> None:
    assert what_is_wrong(reply, BUDGET, 4.0) == wrong
