"""What counts as going round in a circle, and what as getting on."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loop.policy import Policy
from loop.repetition import (
    COMPARED_CHARS,
    Fingerprint,
    PastCall,
    Repetition,
    compared_form,
    fingerprint,
    steps_to_look_at,
)

LIMITS = Policy(repeat_unchanged=3, repeat_failures=3, corrections=2)

Results = Callable[[Fingerprint, int], str]
"""What the n-th execution of a call brings."""


def a_call(name: str = "a", **arguments: object) -> Fingerprint:
    return fingerprint(name, json.dumps(arguments))


def unchanging(call: Fingerprint, _: int) -> str:
    return f"of {call}"


def always_new(_: Fingerprint, executions: int) -> str:
    return f"{executions}"


def lived(
    wishes: Sequence[Fingerprint],
    results: Results = unchanging,
    policy: Policy = LIMITS,
    past: Sequence[PastCall] = (),
) -> list[PastCall]:
    """The history after one wish per step; each step is judged by another worker."""
    history = list(past)
    for step, wish in enumerate(wishes, start=len(history) + 1):
        if Repetition(history, policy).judge(wish, is_change=False) is None:
            result = results(wish, len(history))
            history.append(PastCall(step, wish, result, "returned", is_change=False))
    return history


def failures(*calls: Fingerprint) -> list[PastCall]:
    """A step per call, each of which failed with words of its own."""
    return [
        PastCall(step, call, f"error {step}", "errored", is_change=False)
        for step, call in enumerate(calls, start=1)
    ]


CALLS = st.integers(0, 3).map(lambda number: a_call(id=number))


@given(st.integers(1, 6), st.integers(1, 20))
def test_the_same_call_with_the_same_result_runs_exactly_as_often_as_it_may(
    allowed: int, wishes: int
) -> None:
    policy = Policy(repeat_unchanged=allowed)
    assert len(lived([a_call()] * wishes, policy=policy)) == min(allowed, wishes)


@given(st.lists(CALLS, max_size=60), st.integers(1, 5))
def test_a_few_calls_with_unchanging_results_end_in_whatever_order_they_come(
    wishes: list[Fingerprint], allowed: int
) -> None:
    history = lived(wishes, policy=Policy(repeat_unchanged=allowed))
    assert len(history) <= allowed * len(set(wishes))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_circle_ends_after_three_rounds_and_stays_ended(size: int) -> None:
    circle = [a_call(id=number) for number in range(size)]
    assert len(lived(circle * 10)) == 3 * size


@given(st.lists(CALLS, max_size=60))
def test_calls_whose_results_change_go_on_for_ever(wishes: list[Fingerprint]) -> None:
    assert len(lived(wishes, always_new)) == len(wishes)


def test_pages_behind_a_moving_cursor_go_on_for_ever() -> None:
    pages = [a_call(cursor=number) for number in range(200)]
    assert len(lived(pages, lambda *_: "a page like any other")) == 200


def test_a_call_between_calls_that_bring_something_new_is_no_circle() -> None:
    wishes = [call for n in range(20) for call in (a_call("plan"), a_call("work", part=n))]
    assert len(lived(wishes)) == 40


def test_another_call_is_free_to_end_a_circle() -> None:
    history = lived([a_call()] * 3)
    judge = Repetition(history, LIMITS)
    assert judge.judge(a_call("b"), is_change=False) is None
    again = Repetition(lived([a_call("b")], past=history), LIMITS)
    assert again.judge(a_call(), is_change=False) is None


def test_what_a_change_may_have_changed_is_read_again() -> None:
    history = lived([a_call()] * 3)
    change = PastCall(4, a_call("write"), "written", "returned", is_change=True)
    assert len(lived([a_call()] * 9, past=[*history, change])) == 3 + 1 + 3


def test_a_change_that_is_itself_repeated_changes_nothing_any_more() -> None:
    write = PastCall(0, a_call("write"), "written", "returned", is_change=True)
    read = PastCall(0, a_call("read"), "text", "returned", is_change=False)
    history = [replace(c, step=n) for n, c in enumerate([write, read] * 3, start=1)]
    for wish, is_change in ((write.fingerprint, True), (read.fingerprint, False)):
        found = Repetition(history, LIMITS).judge(wish, is_change=is_change)
        assert found is not None
        assert found.code == "repeated_call"


@given(st.lists(CALLS, max_size=12))
def test_calls_of_one_reply_are_judged_as_if_each_had_brought_the_same_again(
    wishes: list[Fingerprint],
) -> None:
    judge = Repetition([], LIMITS)
    together = [judge.judge(wish, is_change=False) is None for wish in wishes]
    assert sum(together) == len(lived(wishes))


@pytest.mark.parametrize("ran_before", [0, 1, 2])
def test_the_same_call_many_times_in_one_reply_runs_no_more_often(ran_before: int) -> None:
    judge = Repetition(lived([a_call()] * ran_before), LIMITS)
    verdicts = [judge.judge(a_call(), is_change=False) for _ in range(8)]
    assert verdicts.count(None) == 3 - ran_before


def test_a_tool_that_failed_three_steps_in_a_row_is_refused_whatever_its_arguments() -> None:
    history = failures(a_call(id=1), a_call(id=2), a_call(id=3))
    judge = Repetition(history, LIMITS)
    found = judge.judge(a_call(id=4), is_change=False)
    assert found is not None
    assert found.code == "repeated_failure"
    assert "3 steps" in found.message
    assert judge.judge(a_call("another"), is_change=False) is None


def test_two_failures_are_none_too_many() -> None:
    judge = Repetition(failures(a_call(), a_call()), LIMITS)
    assert judge.judge(a_call(), is_change=False) is None


def test_one_success_ends_a_row_of_failures() -> None:
    good = PastCall(3, a_call("b"), "fine", "returned", is_change=False)
    history = [*failures(a_call(), a_call()), good, replace(failures(a_call())[0], step=4)]
    assert Repetition(history, LIMITS).judge(a_call(), is_change=False) is None


def test_a_success_beside_failures_of_the_same_step_makes_it_a_good_step() -> None:
    history = [
        PastCall(step, a_call(name), name, "errored" if name == "bad" else "returned", False)
        for step in range(1, 6)
        for name in ("bad", f"good{step}")
    ]
    assert Repetition(history, LIMITS).judge(a_call("bad"), is_change=False) is None


def test_one_tool_after_the_other_may_not_fail_for_ever() -> None:
    calls = [a_call(f"tool{number}") for number in range(5)]
    judge = Repetition(failures(*calls), LIMITS)
    assert judge.judge(a_call("another"), is_change=False) is not None
    assert Repetition(failures(*calls[:4]), LIMITS).judge(a_call("x"), is_change=False) is None


def test_a_refusal_is_no_failure_yet_the_same_one_again_is_a_circle() -> None:
    refused = [PastCall(n, a_call(), "ask first", "refused", is_change=True) for n in range(1, 4)]
    found = Repetition(refused, LIMITS).judge(a_call(), is_change=True)
    assert found is not None
    assert found.code == "repeated_call"
    assert Repetition(refused, LIMITS).judge(a_call(id=2), is_change=True) is None


@given(st.lists(CALLS, max_size=30))
def test_without_limits_nothing_is_a_repetition(wishes: list[Fingerprint]) -> None:
    assert len(lived(wishes, policy=Policy())) == len(wishes)
    judge = Repetition(failures(*wishes), Policy())
    assert judge.judge(a_call(), is_change=False) is None


def test_the_history_that_is_looked_at_holds_every_circle_and_every_row_of_failures() -> None:
    corrected = LIMITS.corrections * 4
    assert steps_to_look_at(LIMITS) >= 4 * 3 + corrected
    assert steps_to_look_at(Policy(repeat_failures=9, corrections=1)) >= 9 + 1
    assert steps_to_look_at(Policy()) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def _spelled_differently(value: object) -> object:
    if isinstance(value, dict):
        return {key: _spelled_differently(item) for key, item in reversed(value.items())}
    if isinstance(value, list):
        return [_spelled_differently(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=4), JSON))
def test_the_order_of_keys_and_the_spelling_of_numbers_make_no_other_call(
    arguments: dict[str, object],
) -> None:
    other = _spelled_differently(arguments)
    assert fingerprint("t", json.dumps(arguments)) == fingerprint("t", json.dumps(other))


def test_two_unicode_forms_of_one_text_are_one_call() -> None:
    assert a_call(text="caf\u00e9") == a_call(text="cafe\u0301")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": None}, {}),
        ({"a": "x"}, {"a": "x "}),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1.5}),
    ],
)
def test_other_arguments_are_another_call(one: dict[str, object], other: object) -> None:
    assert fingerprint("t", json.dumps(one)) != fingerprint("t", json.dumps(other))


def test_another_tool_with_the_same_arguments_is_another_call() -> None:
    assert a_call("a") != a_call("b")


def test_long_arguments_are_compared_by_their_hash() -> None:
    texts = [json.dumps({"text": "x" * COMPARED_CHARS + end}) for end in "yz"]
    forms = [compared_form(text) for text in texts]
    assert len(set(forms)) == 2
    assert all(len(form) < 100 for form in forms)
    assert fingerprint("t", forms[0]) != fingerprint("t", forms[1])
    assert compared_form("{}") == "{}"
