from collections.abc import Mapping
from typing import Any

import pytest

from loop.policy import Policy
from loop.response import ProposedCall
from models.records import RunSpec
from tasks.planning import plan_calls
from tests.factories import a_tool
from tools.preflight import Cleared, Denied, PlannedCall, Verdict
from umbel.contracts import RunId, ThreadId

TOOLS = (
    a_tool("look"),
    a_tool("touch", effect="idempotent"),
    a_tool("write", effect="mutation"),
    a_tool("strict", schema={"type": "object", "required": ["a"]}),
)


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


def test_a_run_that_asks_clears_no_change_and_says_so_to_the_model() -> None:
    spec = a_spec(permission_mode="ask")
    look, touch, write = plan_calls(proposed("look", "touch", "write"), spec, ())
    assert (look.state, touch.state, write.state) == ("ready", "ready", "refused")
    assert write.body is not None
    assert '"approval_required"' in write.body
    assert write.args_text == "{}"


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


def test_the_surplus_of_a_reply_is_answered_and_not_run() -> None:
    calls = proposed(*["look"] * 5)
    rows = plan_calls(calls, a_spec(calls_per_step=3, parallel=2), ())
    assert [row.state for row in rows] == ["ready", "ready", "planned", "refused", "refused"]
    assert all("too_many_calls" in (row.body or "") for row in rows[3:])
