"""What is left out of a request that is too large, and what never is."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from loop.budget import Budget
from loop.cutting import kept_from, left_out_before, places_of
from loop.policy import Policy
from loop.reducing import Cuts, Fits, Plan, Reducing, Scale, TooLarge, plan_request
from loop.request import OfferedTool, ToolMessage
from loop.shape import WHOLE, Shape
from loop.transcript import RecordedSummary, RunRecord, build_request
from tests.loop.histories import (
    REQUEST,
    StepWish,
    a_record,
    a_step,
    broken_rules,
    place,
    records,
    texts_of,
)

ALL = Policy().reducers
RATE = 4.0


def a_budget(tokens: int, schema_tokens: int = 100_000) -> Budget:
    return Budget(tokens, int(tokens * 0.6), tokens // 10, schema_tokens)


def plan(
    record: RunRecord, budget: Budget, shape: Shape = WHOLE, reducers: tuple[str, ...] = ALL
) -> Plan:
    reducing = Reducing(record, Scale(budget, RATE), protected_steps=2)
    return plan_request(reducing, shape, reducers)  # type: ignore[arg-type]  # names of reducers


def tokens_of(record: RunRecord, shape: Shape = WHOLE) -> int:
    return Scale(a_budget(1), RATE).tokens(record, shape)


def test_a_request_that_fits_is_left_as_it_is() -> None:
    record = a_record([StepWish()] * 5)
    assert plan(record, a_budget(tokens_of(record))) == Fits(WHOLE)


def test_old_results_give_way_first_oldest_first_and_no_more_than_needed() -> None:
    record = a_record([StepWish(chars=4_000)] * 10)
    budget = a_budget(9_000)
    found = plan(record, budget)
    assert isinstance(found, Fits)
    border = found.shape.pruned_before
    assert border is not None
    assert found.shape.first_kept is None
    shown = [
        message.text.startswith("result")
        for message in build_request(record, found.shape).messages
        if isinstance(message, ToolMessage)
    ]
    assert shown == [step >= border.step for step in range(1, 11)]
    assert tokens_of(record, found.shape) <= budget.low_tokens
    before = found.shape.model_copy(update={"pruned_before": place(border.step - 1)})
    assert tokens_of(record, before) > budget.low_tokens


def test_a_line_in_the_place_of_a_result_names_its_evidence() -> None:
    record = a_record([StepWish(chars=4_000)])
    shape = Shape(pruned_before=place(2))
    assert texts_of(build_request(record, shape))[-1] == (
        "[an old result, left out here; it is kept whole as evidence call_run_own.1.0]"
    )


def test_a_short_result_is_not_left_out() -> None:
    record = a_record([StepWish(chars=20)])
    assert build_request(record, Shape(pruned_before=place(2))) == build_request(record)


def test_requests_only_grow_at_the_end_between_two_reductions() -> None:
    shape, changes, texts = WHOLE, 0, [texts_of(build_request(a_record([])))]
    for length in range(1, 40):
        record = a_record([StepWish(chars=1_000)] * length)
        found = plan(record, a_budget(4_000), shape)
        assert isinstance(found, Fits)
        changes += found.shape != shape
        shape = found.shape
        texts.append(texts_of(build_request(record, shape)))
    longer = sum(now[: len(before)] == before for before, now in pairwise(texts))
    assert 2 <= changes <= 6
    assert longer == 39 - changes


def test_whole_steps_give_way_to_a_summary_once_leaving_out_results_is_not_enough() -> None:
    record = a_record([StepWish(chars=400)] * 60)
    budget = a_budget(3_000)
    found = plan(record, budget)
    assert isinstance(found, Cuts)
    summary = RecordedSummary("s" * budget.summary_tokens * 4)
    kept = kept_from(record, found.first_kept, summary)
    assert tokens_of(kept, found.shape) <= budget.low_tokens
    assert len(kept.steps) >= 2
    one_more = kept_from(record, place(found.first_kept.step - 1), summary)
    assert tokens_of(one_more, found.shape) > budget.low_tokens


def test_results_are_shortened_last_and_name_their_evidence() -> None:
    record = a_record([StepWish(chars=16_000)])
    found = plan(record, a_budget(2_000))
    assert isinstance(found, Fits)
    assert found.shape.result_chars == 4_000
    last = texts_of(build_request(record, found.shape))[-1]
    assert last.startswith("result run_own.1.0 rrr")
    assert last.endswith("more in evidence call_run_own.1.0]")


def test_what_was_shortened_once_stays_so() -> None:
    record = a_record([StepWish(chars=16_000), StepWish(chars=16_000)])
    first = plan(a_record([StepWish(chars=16_000)]), a_budget(2_000))
    assert isinstance(first, Fits)
    again = plan(record, a_budget(2_600), first.shape, ("compress",))
    assert isinstance(again, Fits)
    assert again.shape.result_chars == 4_000


def test_a_request_whose_own_text_is_too_large_does_not_fit_whatever_is_left_out() -> None:
    record = replace(a_record([StepWish(chars=4_000)] * 3), requests=("x" * 40_000,))
    found = plan(record, a_budget(2_000), reducers=("prune", "compress"))
    assert isinstance(found, TooLarge)
    assert "Nothing was sent." in found.detail
    assert "2000 fit" in found.detail


def test_tool_schemas_that_take_too_much_are_named_even_where_all_would_fit() -> None:
    tools = tuple(OfferedTool(f"t{n}", "d" * 400, {"type": "object"}) for n in range(12))
    found = plan(a_record([], tools=tools), a_budget(10_000, schema_tokens=1_000))
    assert isinstance(found, TooLarge)
    assert "schemas of the 12 tools" in found.detail


@given(records(), st.integers(200, 6_000))
@settings(max_examples=150, deadline=None)
def test_whatever_is_left_out_the_request_stays_whole_for_its_endpoint(
    record: RunRecord, tokens: int
) -> None:
    budget = a_budget(tokens)
    found = plan(record, budget)
    if isinstance(found, Cuts):
        kept = kept_from(record, found.first_kept, RecordedSummary("notes"))
        assert broken_rules(build_request(kept, found.shape)) == []
        found = plan(kept, budget, found.shape, ("compress",))
        record = kept
    if isinstance(found, Fits):
        assert tokens_of(record, found.shape) <= budget.tokens
        assert broken_rules(build_request(record, found.shape)) == []
    else:
        assert isinstance(found, TooLarge)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_after_any_number_of_cuts_each_entry_is_in_one_summary_or_still_there(
    data: st.DataObject,
) -> None:
    record = data.draw(records())
    whole = build_request(record)
    everything = {text for text in texts_of(whole) if text != "Be brief."}
    told: list[str] = []
    number = len(record.steps)
    for _ in range(data.draw(st.integers(0, 5), label="cuts")):
        places = places_of(record)[1:]
        if not places:
            break
        at = data.draw(st.sampled_from(places), label="first kept")
        left_out = left_out_before(record, at)
        for run in left_out.runs:
            told += run.requests
            for step in run.steps:
                told += [*step.corrections, step.reply.text, *(call.view for call in step.calls)]
        record = kept_from(record, at, RecordedSummary(f"summary {len(told)}"))
        number += 1
        added = a_step(number, StepWish())
        everything |= {added.reply.text, *(call.view for call in added.calls)}
        record = replace(record, steps=(*record.steps, added))
    request = build_request(record)
    kept = [text for text in texts_of(request) if text in everything]
    assert sorted(told + kept) == sorted(everything)
    assert broken_rules(request) == []
    assert REQUEST in kept
