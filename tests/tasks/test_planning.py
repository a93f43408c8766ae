import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest

from loop.authorize import Rule
from loop.policy import Policy
from loop.repetition import PastCall, fingerprint
from loop.response import ProposedCall
from models.authority import Authority
from models.records import RunSpec
from tasks.authority import judging
from tasks.planning import pause_after_mistakes, plan_calls
from tests.factories import a_tool
from umbel.contracts import RunId, ThreadId
from umbel.preflight import Cleared, Denied, PlannedCall, Verdict

TOOLS = (
    a_tool("look"),
    a_tool("touch", effect="idempotent"),
    a_tool("write", effect="mutation"),
    a_tool("strict", schema={"type": "object", "required": ["a"]}),
    a_tool("off"),
)
SWITCHED_OFF = judging("ann", "full_access", Authority(1, (Rule("tool", "off", "deny"),)))


def a_spec(**policy: Any) -> RunSpec:
    return RunSpec(
        run_id=RunId("run_1"),
        thread_id=ThreadId("thr_1"),
        model="m",
        wire="chat",
        instructions="",
        policy=Policy(**{"permission_mode": "full_access", **policy}),
        policy_sha="",
        tools=tuple(tool.frozen() for tool in TOOLS),
        tools_sha="",
        workspace=None,
    )


def proposed(*names: str, **values: Any) -> list[ProposedCall]:
    given: Mapping[str, Any] = {"status": "ok", "arguments_text": "{}", **values}
    return [ProposedCall(model_id=f"c{n}", name=name, **given) for n, name in enumerate(names)]


@pytest.mark.parametrize("parallel", [1, 2, 8])
def test_at_most_parallel_calls_are_ready_at_once(parallel: int) -> None:
    rows = plan_calls(proposed(*["look"] * 5), a_spec(parallel=parallel), ())
    states = [row.state for row in rows]
    assert states == ["ready"] * min(parallel, 5) + ["planned"] * max(0, 5 - parallel)
    assert [row.position for row in rows] == [1, 2, 3, 4, 5]


def test_refused_calls_take_no_place_among_the_parallel_ones() -> None:
    rows = plan_calls(proposed("none", "look", "strict", "look", "look"), a_spec(parallel=2), ())
    assert [row.state for row in rows] == ["errored", "ready", "errored", "ready", "planned"]
    assert all((row.body is None) == (row.state in ("ready", "planned")) for row in rows)


def test_a_run_that_asks_lets_everything_but_reads_wait_for_its_owner() -> None:
    calls = proposed("look", "touch", "write", "look")
    rows = plan_calls(calls, a_spec(parallel=1), (judging("ann", "ask"),))
    assert [row.state for row in rows] == ["ready", *["awaiting_approval"] * 2, "planned"]
    assert [row.body for row in rows] == [None] * 4
    assert pause_after_mistakes(rows, 9, Policy()) is None


def test_a_call_that_would_wait_is_no_less_one_too_many() -> None:
    rows = plan_calls(proposed("write", "look"), a_spec(calls_per_step=1), (judging("ann", "ask"),))
    assert [row.state for row in rows] == ["awaiting_approval", "refused"]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_denial_counts_more_than_a_wish_to_ask(is_first: bool) -> None:
    def deny(call: PlannedCall) -> Verdict:
        return Denied("odd_day", "Not today.")

    asks = judging("ann", "ask")
    [row] = plan_calls(proposed("write"), a_spec(), (deny, asks) if is_first else (asks, deny))
    assert row.state == "refused"


def test_what_is_protected_is_refused_whatever_the_mode_and_the_spelling() -> None:
    protected = Authority(1, (Rule("target", ".env", "deny"),))
    calls = proposed("write", arguments_text='{"path":"./x/../.ENV"}')
    [row] = plan_calls(calls, a_spec(), (judging("ann", "full_access", protected),))
    assert row.state == "refused"
    assert "'.env' is protected" in str(row.body)


def test_full_access_clears_changes() -> None:
    [write] = plan_calls(proposed("write"), a_spec(), ())
    assert (write.state, write.effect, write.placement) == ("ready", "mutation", "task")


def test_a_hook_sees_what_passed_and_may_deny_it() -> None:
    seen: list[str] = []

    def check(call: PlannedCall) -> Verdict:
        seen.append(call.name)
        return Denied("odd_day", "Not today.") if call.name == "touch" else Cleared("{}")

    rows = plan_calls(proposed("look", "none", "touch"), a_spec(), (check,))
    assert seen == ["look", "touch"]
    assert [row.state for row in rows] == ["ready", "errored", "refused"]


def test_a_hook_that_breaks_denies() -> None:
    def check(call: PlannedCall) -> Verdict:
        raise RuntimeError(call.name)

    [row] = plan_calls(proposed("look"), a_spec(), (check,))
    assert row.state == "refused"


def test_a_hook_cannot_change_the_arguments() -> None:
    [row] = plan_calls(proposed("look"), a_spec(), (lambda _: Cleared('{"a":1}'),))
    assert (row.state, row.args_text) == ("refused", "{}")


@pytest.mark.parametrize("status", ["invalid_arguments", "incomplete"])
def test_a_call_that_could_not_be_read_is_an_error_with_no_arguments(status: str) -> None:
    [row] = plan_calls(proposed("look", status=status, arguments_text=None), a_spec(), ())
    assert (row.state, row.args_text) == ("errored", None)
    assert row.body is not None


def test_bytes_are_passed_on_exactly() -> None:
    text = '{"a":"{{x}} %s é","b":1.50}'
    [row] = plan_calls(proposed("look", arguments_text=text), a_spec(), ())
    assert row.args_text == text


def test_a_call_that_only_repeats_the_history_is_a_mistake_that_the_model_is_told_of() -> None:
    spec = a_spec(repeat_unchanged=3)
    rows = plan_calls(proposed("look", "touch"), spec, (), past("look", 3))
    assert [(row.state, row.repeats) for row in rows] == [("errored", True), ("ready", False)]
    assert '"repeated_call"' in (rows[0].body or "")
    again = plan_calls(proposed("look"), spec, (), past("look", 2))
    assert [row.state for row in again] == ["ready"]


def test_polls_may_repeat_themselves() -> None:
    polls = a_spec(repeat_unchanged=1, repeat_failures=1)
    tools = tuple({**tool, "repeatable": True} for tool in polls.tools)
    rows = plan_calls(proposed(*["look"] * 3), replace(polls, tools=tools), (), past("look", 9))
    assert [row.state for row in rows] == ["ready"] * 3


def test_a_change_that_would_be_asked_about_again_and_again_is_a_repetition_first() -> None:
    spec = a_spec(permission_mode="ask", repeat_unchanged=3)
    [row] = plan_calls(proposed("write"), spec, (), past("write", 3, ended="refused"))
    assert (row.state, row.repeats) == ("errored", True)


def past(name: str, times: int, ended: Literal["returned", "refused"] = "returned") -> list[Any]:
    call = fingerprint(name, "{}")
    return [PastCall(n, call, "same", ended, is_change=False) for n in range(1, times + 1)]


POLICY = Policy(corrections=2)


@pytest.mark.parametrize(
    ("names", "corrections", "reason"),
    [
        (["none"], 1, None),
        (["none"], 2, "repeated_failure"),
        (["none", "strict"], 2, "repeated_failure"),
        (["none", "touch"], 2, None),
        (["write"], 9, None),
        (["none", "write"], 2, None),
        (["off"], 1, None),
        (["off"], 2, "repeated_failure"),
        (["off", "none"], 2, "repeated_failure"),
        (["off", "touch"], 9, None),
        (["look"], 2, "stall"),
        (["look", "none"], 2, "stall"),
        ([], 9, None),
    ],
)
def test_a_run_pauses_once_its_model_was_told_often_enough(
    names: list[str], corrections: int, reason: str | None
) -> None:
    spec = a_spec(permission_mode="ask", repeat_unchanged=3)
    rows = plan_calls(proposed(*names), spec, (SWITCHED_OFF,), past("look", 3))
    pause = pause_after_mistakes(rows, corrections, POLICY)
    assert (pause and pause.reason) == reason


def test_a_tool_that_only_fails_pauses_the_run_as_a_failure() -> None:
    failed = [
        PastCall(n, fingerprint("look", "{}"), f"{n}", "errored", is_change=False) for n in (1, 2)
    ]
    rows = plan_calls(proposed("look"), a_spec(repeat_failures=2), (), failed)
    assert [(row.state, row.repeats) for row in rows] == [("errored", True)]
    pause = pause_after_mistakes(rows, 2, POLICY)
    assert pause is not None
    assert pause.reason == "repeated_failure"


def test_the_surplus_of_a_reply_is_answered_and_not_run() -> None:
    calls = proposed(*["look"] * 5)
    rows = plan_calls(calls, a_spec(calls_per_step=3, parallel=2), ())
    assert [row.state for row in rows] == ["ready", "ready", "planned", "refused", "refused"]
    assert all("too_many_calls" in (row.body or "") for row in rows[3:])


PAY = replace(
    a_tool("pay", effect="mutation", schema={"type": "object", "properties": {"to": {}}}),
    resource_key="account:{to}",
)


def paying(*names: str | None) -> list[ProposedCall]:
    """A payment to each name; of None nobody is named."""
    calls = proposed(*["pay"] * len(names))
    texts = (json.dumps({} if name is None else {"to": name}) for name in names)
    return [
        call.model_copy(update={"arguments_text": text})
        for call, text in zip(calls, texts, strict=True)
    ]


def test_of_changes_with_one_key_the_first_is_ready() -> None:
    spec = replace(a_spec(parallel=8), tools=tuple(tool.frozen() for tool in (*TOOLS, PAY)))
    calls = [*paying("ann", "bob", "Ann", None), *proposed("write", "look", "touch")]
    rows = plan_calls(calls, spec, ())
    states = ["ready", "ready", "planned", "ready", "planned", "ready", "ready"]
    assert [row.state for row in rows] == states
    keys = ["account:ann", "account:bob", "account:ann", None, None, None, None]
    assert [row.resource_key for row in rows] == keys


def test_a_change_that_waits_for_its_key_takes_no_place_from_others() -> None:
    spec = replace(a_spec(parallel=2), tools=tuple(tool.frozen() for tool in (*TOOLS, PAY)))
    rows = plan_calls([*paying("ann", "ann", "ann"), *proposed("look", "look")], spec, ())
    assert [row.state for row in rows] == ["ready", "planned", "planned", "ready", "planned"]


def test_a_change_that_asks_closes_its_key_to_nobody() -> None:
    spec = replace(a_spec(), tools=tuple(tool.frozen() for tool in (*TOOLS, PAY)))
    rows = plan_calls(paying("ann", "ann"), spec, (judging("ann", "ask"),))
    assert [row.state for row in rows] == ["awaiting_approval"] * 2
