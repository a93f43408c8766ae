from typing import get_args

import pytest

from loop.decide import LONGEST_WAIT_SECONDS, PAUSE_REASONS, RunSnapshot, decide, retry_wait_seconds
from loop.decision import Answer, Decision, Discard, Dispatch, Pause, Retry
from loop.policy import Policy
from loop.response import ErrorClass, Failure, ProposedCall, Text, ToolUse
from umbel.names import REASONS


def a_snapshot(
    *,
    step: int = 1,
    failures: int = 0,
    calls_used: int = 0,
    is_stale: bool = False,
    jitter: float = 0.0,
    policy: Policy | None = None,
    cut_texts: tuple[str, ...] = (),
    size_refusals: int = 0,
) -> RunSnapshot:
    return RunSnapshot(
        step=step,
        policy=policy or Policy(),
        failures=failures,
        calls_used=calls_used,
        is_stale=is_stale,
        jitter=jitter,
        cut_texts=cut_texts,
        size_refusals=size_refusals,
    )


def asked_for(count: int = 1, text: str = "") -> ToolUse:
    calls = tuple(
        ProposedCall(model_id=f"c{number}", name="look", status="ok", arguments_text="{}")
        for number in range(count)
    )
    return ToolUse(text=text, calls=calls)


def failed(
    error_class: ErrorClass = "server",
    *,
    is_retryable: bool = True,
    retry_after_seconds: float | None = None,
    message: str = "",
) -> Failure:
    return Failure(
        error_class=error_class,
        is_retryable=is_retryable,
        retry_after_seconds=retry_after_seconds,
        message=message,
    )


CAPPED = Policy(iteration_cap=3)
LIMITED = Policy(tool_call_limit=5)


@pytest.mark.parametrize(
    ("snapshot", "reply", "expected"),
    [
        (a_snapshot(), Text(text="Done."), Answer("Done.")),
        (a_snapshot(), Text(text="Do", is_cut=True), Dispatch(())),
        (a_snapshot(calls_used=9, policy=LIMITED), Text(text="Do", is_cut=True), Dispatch(())),
        (a_snapshot(cut_texts=("Do", "n")), Text(text="e."), Answer("Done.")),
        (a_snapshot(cut_texts=("Do", "n")), Text(text="e", is_cut=True), Dispatch(())),
        (
            a_snapshot(cut_texts=("D", "o", "n", "e")),
            Text(text=".", is_cut=True),
            Pause(
                "iteration_limit",
                "The answer was cut at the output limit 5 times and is not whole.",
                keeps_reply=True,
            ),
        ),
        (
            a_snapshot(step=3, policy=CAPPED),
            Text(text="Do", is_cut=True),
            Pause("iteration_limit", "The run has used its 3 steps.", keeps_reply=True),
        ),
        (a_snapshot(step=9, policy=CAPPED), Text(text="Done."), Answer("Done.")),
        (a_snapshot(), asked_for(2), Dispatch(asked_for(2).calls)),
        (a_snapshot(), asked_for(1, text="First I look."), Dispatch(asked_for(1).calls)),
        (a_snapshot(step=2, policy=CAPPED), asked_for(), Dispatch(asked_for().calls)),
        (
            a_snapshot(step=3, policy=CAPPED),
            asked_for(),
            Pause("iteration_limit", "The run has used its 3 steps.", keeps_reply=True),
        ),
        (
            a_snapshot(calls_used=3, policy=LIMITED),
            asked_for(2),
            Dispatch(asked_for(2).calls),
        ),
        (
            a_snapshot(calls_used=4, policy=LIMITED),
            asked_for(2),
            Pause(
                "tool_call_limit", "The model asks for call 6; the limit is 5.", keeps_reply=True
            ),
        ),
        (a_snapshot(calls_used=10_000), asked_for(), Dispatch(asked_for().calls)),
    ],
)
def test_a_reply_leads_to_exactly_this_decision(
    snapshot: RunSnapshot, reply: Text | ToolUse, expected: Decision
) -> None:
    assert decide(snapshot, reply) == expected


@pytest.mark.parametrize("reply", [Text(text="Done."), asked_for(), failed()])
def test_whatever_answers_a_state_that_is_over_is_discarded(
    reply: Text | ToolUse | Failure,
) -> None:
    assert isinstance(decide(a_snapshot(is_stale=True), reply), Discard)


@pytest.mark.parametrize("error_class", get_args(ErrorClass))
def test_every_class_of_failure_pauses_for_its_own_reason_when_it_cannot_be_retried(
    error_class: ErrorClass,
) -> None:
    snapshot = a_snapshot(size_refusals=Policy().size_retries)
    decision = decide(snapshot, failed(error_class, is_retryable=False, message="why"))
    expected = {
        "auth": "credentials",
        "context_length": "context_capacity",
        "empty_response": "empty_response",
        "model_output": "empty_response",
    }.get(error_class, "provider_error")
    assert decision == Pause(expected, f"{error_class}: why")  # type: ignore[arg-type]  # a Reason
    assert expected in REASONS


def test_reasons_are_given_only_for_classes_that_exist() -> None:
    assert set(PAUSE_REASONS) <= set(get_args(ErrorClass))


def test_a_request_refused_for_its_size_is_asked_again_smaller_and_a_few_times_only() -> None:
    refused = failed("context_length", is_retryable=False, message="too long")
    policy = Policy(size_retries=2)
    for size_refusals in range(2):
        snapshot = a_snapshot(policy=policy, failures=7, size_refusals=size_refusals)
        assert decide(snapshot, refused) == Retry("context_length", 0.0, "context_length: too long")
    snapshot = a_snapshot(policy=policy, failures=2, size_refusals=2)
    assert decide(snapshot, refused) == Pause("context_capacity", "context_length: too long")


@pytest.mark.parametrize("error_class", set(get_args(ErrorClass)) - {"context_length"})
def test_every_retryable_failure_is_asked_again_until_its_budget_is_used_up(
    error_class: ErrorClass,
) -> None:
    policy = Policy(provider_retries=4, empty_retries=2)
    is_empty = error_class in ("empty_response", "model_output")
    budget = 2 if is_empty else 4
    for failures in range(budget):
        decision = decide(a_snapshot(failures=failures, policy=policy), failed(error_class))
        assert isinstance(decision, Retry)
        assert decision.cause == ("empty_response" if is_empty else "provider")
    assert isinstance(
        decide(a_snapshot(failures=budget, policy=policy), failed(error_class)), Pause
    )


def test_a_budget_of_zero_never_retries() -> None:
    policy = Policy(provider_retries=0, empty_retries=0)
    assert isinstance(decide(a_snapshot(policy=policy), failed()), Pause)
    assert isinstance(decide(a_snapshot(policy=policy), failed("empty_response")), Pause)


def test_an_empty_reply_is_asked_again_at_once() -> None:
    decision = decide(a_snapshot(jitter=0.9), failed("empty_response"))
    assert decision == Retry("empty_response", 0.0, "empty_response")


@pytest.mark.parametrize(
    ("failures", "jitter", "seconds"),
    [(0, 0.0, 0.5), (0, 1.0, 1.0), (1, 0.0, 1.0), (3, 1.0, 8.0), (3, 0.5, 6.0), (9, 1.0, 60.0)],
)
def test_waits_double_up_to_a_maximum_and_are_spread_by_jitter(
    failures: int, jitter: float, seconds: float
) -> None:
    policy = Policy(provider_retries=20, retry_base_seconds=1.0, retry_max_seconds=60.0)
    snapshot = a_snapshot(failures=failures, jitter=jitter, policy=policy)
    decision = decide(snapshot, failed())
    assert isinstance(decision, Retry)
    assert decision.wait_seconds == pytest.approx(seconds)


def test_a_wait_the_provider_asks_for_is_never_shortened() -> None:
    assert retry_wait_seconds(a_snapshot(jitter=0.0), 90.0) == 90.0
    assert retry_wait_seconds(a_snapshot(jitter=1.0), 90.0) == 91.0
    assert retry_wait_seconds(a_snapshot(jitter=0.25), 0.0) == 0.25


@pytest.mark.parametrize("asked", [1e6, 1e300])
def test_no_header_parks_a_run_for_ever(asked: float) -> None:
    decision = decide(a_snapshot(), failed("rate_limit", retry_after_seconds=asked))
    assert decision == Retry("provider", LONGEST_WAIT_SECONDS, "rate_limit")


def test_a_failure_without_a_message_is_named_by_its_class() -> None:
    decision = decide(a_snapshot(), failed("auth", is_retryable=False))
    assert decision == Pause("credentials", "auth")
