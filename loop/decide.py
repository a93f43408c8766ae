"""The loop: one reply in, one decision out. No phases, no flags, no profile names."""

from dataclasses import dataclass, field
from typing import Final, assert_never, get_args

from loop.decision import Answer, Decision, Discard, Dispatch, Pause, Retry
from loop.policy import Policy
from loop.response import ErrorClass, Failure, Mistake, Text, ToolUse
from umbel.names import Reason

MISTAKE_CLASSES: Final[frozenset[Mistake]] = frozenset(get_args(Mistake))
"""They have a limit of their own."""

PAUSE_REASONS: Final[dict[ErrorClass, Reason]] = {
    "auth": "credentials",
    "context_length": "context_capacity",
    "empty_response": "empty_response",
    "model_output": "empty_response",
}
"""Everything else pauses as `provider_error`."""

LONGEST_WAIT_SECONDS: Final = 86_400.0
"""A provider that asks for more is asked again after a day: no header may park a run for ever."""


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """What the decision depends on beside the reply."""

    step: int
    policy: Policy
    failures: int
    """Failed replies of this step so far."""
    size_refusals: int = field(default=0, kw_only=True)
    """How many of them refused the request for its size."""
    calls_used: int
    is_stale: bool
    """A stop, correction or changed source came in while the model spoke."""
    jitter: float
    """Between 0 and 1; drawn outside, because the loop knows no chance."""
    cut_texts: tuple[str, ...] = ()
    """What an answer has said in the steps right before this one, each cut at the output limit."""


def decide(snapshot: RunSnapshot, reply: Text | ToolUse | Failure) -> Decision:
    """What follows from `reply`. Pure: the same input gives the same decision."""
    if snapshot.is_stale:
        return Discard("The run was stopped or corrected while the model answered.")
    match reply:
        case Text():
            return _whole_answer(snapshot, reply)
        case ToolUse(calls=calls):
            return _within_limits(snapshot, Dispatch(calls))
        case Failure():
            return _after_failure(snapshot, reply)
        case _:
            assert_never(reply)


def _whole_answer(snapshot: RunSnapshot, reply: Text) -> Decision:
    """The answer with all of its parts; a cut one goes on in another step, a few times."""
    policy, parts = snapshot.policy, (*snapshot.cut_texts, reply.text)
    if not reply.is_cut:
        return Answer("".join(parts))
    if len(parts) > policy.continuations:
        return Pause(
            "iteration_limit",
            f"The answer was cut at the output limit {len(parts)} times and is not whole.",
            keeps_reply=True,
        )
    return _within_limits(snapshot, Dispatch(()))


def _within_limits(snapshot: RunSnapshot, dispatch: Dispatch) -> Decision:
    """The dispatch, or a pause where a limit of the policy is reached."""
    policy = snapshot.policy
    if policy.iteration_cap is not None and snapshot.step >= policy.iteration_cap:
        detail = f"The run has used its {policy.iteration_cap} steps."
        return Pause("iteration_limit", detail, keeps_reply=True)
    if policy.tool_call_limit and dispatch.calls:
        wanted = snapshot.calls_used + len(dispatch.calls)
        if wanted > policy.tool_call_limit:
            return Pause(
                "tool_call_limit",
                f"The model asks for call {wanted}; the limit is {policy.tool_call_limit}.",
                keeps_reply=True,
            )
    return dispatch


def _after_failure(snapshot: RunSnapshot, failure: Failure) -> Decision:
    """Another try while the budget for its kind lasts, else a pause that says why."""
    if failure.error_class == "context_length":
        return _after_size_refusal(snapshot, failure)
    is_empty = failure.error_class in MISTAKE_CLASSES
    policy = snapshot.policy
    budget = policy.empty_retries if is_empty else policy.provider_retries
    detail = _words_of(failure)
    if failure.is_retryable and snapshot.failures < budget:
        wait = 0.0 if is_empty else retry_wait_seconds(snapshot, failure.retry_after_seconds)
        return Retry("empty_response" if is_empty else "provider", wait, detail)
    return Pause(PAUSE_REASONS.get(failure.error_class, "provider_error"), detail)


def _after_size_refusal(snapshot: RunSnapshot, failure: Failure) -> Decision:
    """Another, smaller request: whoever builds it leaves more out. A few times, then a pause."""
    if snapshot.size_refusals < snapshot.policy.size_retries:
        return Retry("context_length", 0.0, _words_of(failure))
    return Pause("context_capacity", _words_of(failure))


def _words_of(failure: Failure) -> str:
    return f"{failure.error_class}: {failure.message}" if failure.message else failure.error_class


def retry_wait_seconds(snapshot: RunSnapshot, asked_seconds: float | None) -> float:
    """Seconds until the next try: what the provider asked for, else doubling with jitter."""
    if asked_seconds is not None:
        return min(asked_seconds, LONGEST_WAIT_SECONDS) + snapshot.jitter
    policy = snapshot.policy
    doubled = policy.retry_base_seconds * 2.0**snapshot.failures
    return min(doubled, policy.retry_max_seconds) * (0.5 + snapshot.jitter / 2)
