"""Whatever the policy and the reply: the decision is legal, and the same every time."""

import math
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from loop.decide import RunSnapshot, decide
from loop.decision import Answer, Discard, Dispatch, Pause, Retry
from loop.policy import Policy
from loop.response import ErrorClass, Failure, ModelTurn, ProposedCall, Text, ToolUse, response_of
from umbel.names import REASONS

POLICIES = st.builds(
    Policy,
    iteration_cap=st.none() | st.integers(1, 500),
    tool_call_limit=st.integers(0, 500),
    parallel=st.integers(1, 64),
    provider_retries=st.integers(0, 20),
    retry_base_seconds=st.floats(0.001, 1e6),
    retry_max_seconds=st.floats(0.001, 1e6),
    empty_retries=st.integers(0, 10),
    permission_mode=st.sampled_from(["ask", "full_access"]),
    max_losses=st.integers(1, 20),
    continuations=st.integers(0, 5),
)
SNAPSHOTS = st.builds(
    RunSnapshot,
    step=st.integers(1, 100_000),
    policy=POLICIES,
    failures=st.integers(0, 30_000),
    calls_used=st.integers(0, 1_000_000),
    is_stale=st.booleans(),
    jitter=st.floats(0, 1),
    size_refusals=st.integers(0, 4),
    cut_texts=st.lists(st.text(max_size=5), max_size=6).map(tuple),
)
CALLS = st.builds(
    ProposedCall,
    model_id=st.text(max_size=10),
    name=st.text(max_size=10),
    status=st.sampled_from(["ok", "invalid_arguments", "unknown_tool", "incomplete"]),
    arguments_text=st.none() | st.just("{}"),
)
FAILURES = st.builds(
    Failure,
    error_class=st.sampled_from(get_args(ErrorClass)),
    is_retryable=st.booleans(),
    retry_after_seconds=st.none() | st.floats(0, 1e9),
    message=st.text(max_size=30),
)
TURNS = st.builds(
    ModelTurn,
    text=st.text(max_size=30),
    calls=st.lists(CALLS, max_size=5).map(tuple),
    failure=st.none() | FAILURES,
    finish=st.none() | st.sampled_from(["stop", "tool_calls", "length", "content_filter"]),
)


@given(SNAPSHOTS, TURNS)
def test_any_reply_under_any_policy_gives_a_legal_decision(
    snapshot: RunSnapshot, turn: ModelTurn
) -> None:
    reply = response_of(turn)
    decision = decide(snapshot, reply)
    assert decision == decide(snapshot, reply), "the same input gives the same decision"
    match decision:
        case Answer(text=text):
            assert isinstance(reply, Text)
            assert not reply.is_cut
            assert text == "".join(snapshot.cut_texts) + turn.text
        case Dispatch(calls=calls):
            assert calls == turn.calls
            is_cut = isinstance(reply, Text) and reply.is_cut
            assert isinstance(reply, ToolUse) or is_cut
            assert calls or len(snapshot.cut_texts) < snapshot.policy.continuations
            assert snapshot.policy.iteration_cap is None or (
                snapshot.step < snapshot.policy.iteration_cap
            )
            limit = snapshot.policy.tool_call_limit
            assert not limit or not calls or snapshot.calls_used + len(calls) <= limit
        case Retry(wait_seconds=wait):
            assert isinstance(reply, Failure)
            assert reply.is_retryable or reply.error_class == "context_length"
            assert math.isfinite(wait)
            assert wait >= 0
        case Pause(reason=reason, detail=detail):
            assert reason in REASONS
            assert detail
            assert decision.keeps_reply == (not isinstance(reply, Failure))
        case Discard():
            assert snapshot.is_stale
    assert isinstance(decision, Discard) == snapshot.is_stale


@given(SNAPSHOTS, FAILURES)
def test_a_failing_endpoint_is_asked_a_bounded_number_of_times(
    snapshot: RunSnapshot, failure: Failure
) -> None:
    policy = snapshot.policy
    budget = max(policy.provider_retries, policy.empty_retries)
    if snapshot.failures >= budget and snapshot.size_refusals >= policy.size_retries:
        assert not isinstance(decide(snapshot, failure), Retry)


@given(TURNS)
def test_a_turn_is_exactly_one_kind_of_reply(turn: ModelTurn) -> None:
    reply = response_of(turn)
    if turn.failure is not None:
        assert reply == turn.failure
    elif turn.calls:
        assert isinstance(reply, ToolUse)
        assert (reply.text, reply.calls) == (turn.text, turn.calls)
    else:
        assert reply == Text(text=turn.text, is_cut=turn.finish == "length")
