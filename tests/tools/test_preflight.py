import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import umbel
from loop.response import ProposedCall
from tools.definition import from_function
from tools.preflight import ClearedCall, PreparedCall, RefusedCall, judge_calls
from tools.registry import ToolRegistry
from tools.typed_check import TypedArgumentsCheck
from umbel.errors import InvariantBroken
from umbel.preflight import Asked, Cleared, Denied, PlannedCall, Verdict


@umbel.tool(effect="read", placement="inline", version="2", stall_seconds=9)
def lookup(key: str) -> str:
    """Look up."""
    return key


@umbel.tool(effect="read", placement="inline")
def search_docs(q: str) -> str:
    """Search."""
    return q


@umbel.tool()
def book(item: str, qty: int) -> str:
    """Book."""
    return f"{item}{qty}"


TOOLS = {
    tool.name: tool.frozen()
    for tool in (from_function(lookup), from_function(search_docs), from_function(book))
}


def ok(name: str, model_id: str = "c1", **arguments: Any) -> ProposedCall:
    return ProposedCall(
        model_id=model_id,
        name=name,
        status="ok",
        arguments_text=json.dumps(arguments, separators=(",", ":")),
    )


def message_of(call: PreparedCall) -> str:
    assert isinstance(call, RefusedCall), call
    return str(json.loads(call.error)["error"]["message"])


def test_a_sound_call_is_cleared_with_its_own_bytes_and_the_frozen_facts() -> None:
    (call,) = judge_calls([ok("lookup", key="ä")], TOOLS)
    assert isinstance(call, ClearedCall)
    assert call.arguments_text == '{"key":"\\u00e4"}'
    assert (call.position, call.effect, call.placement) == (0, "read", "inline")
    assert (call.version, call.stall_seconds) == ("2", 9)


def test_a_cleared_call_cannot_be_built_by_anybody_else() -> None:
    with pytest.raises(InvariantBroken, match="judge_calls"):
        ClearedCall(
            position=0,
            model_id="c1",
            name="book",
            effect="mutation",
            placement="task",
            version="1",
            stall_seconds=1,
            arguments_text="{}",
            needs_approval=False,
            seal=None,
        )


def test_a_wrong_name_is_answered_with_it_and_the_closest_name_first() -> None:
    first, second = judge_calls([ok("lookup", key="k"), ok("serch_docs", "c2", q="p")], TOOLS)
    assert isinstance(first, ClearedCall)
    message = message_of(second)
    assert "'serch_docs'" in message
    assert message.index("search_docs", message.index("Offered")) < message.index("lookup")
    assert "book" in message
    assert isinstance(second, RefusedCall)
    assert (second.code, second.effect, second.position) == ("unknown_tool", "read", 1)


def test_a_registered_tool_outside_the_runs_frozen_set_cannot_be_called() -> None:
    (call,) = judge_calls([ok("book", item="x", qty=1)], {"lookup": TOOLS["lookup"]})
    assert "There is no tool 'book'" in message_of(call)


def test_a_call_that_was_not_offered_in_this_request_is_refused() -> None:
    call = ok("lookup", key="k").model_copy(update={"status": "unknown_tool"})
    assert "There is no tool" in message_of(judge_calls([call], TOOLS)[0])


def test_a_wrong_name_without_any_tool_is_answered() -> None:
    assert "no tools are offered" in message_of(judge_calls([ok("x")], {})[0])


def test_hundreds_of_names_are_not_listed() -> None:
    many = {f"tool_{number}": TOOLS["lookup"] for number in range(300)}
    message = message_of(judge_calls([ok("tool_7x")], many)[0])
    assert "tool_7," in message
    assert "and 270 more" in message
    assert len(message) < 600


def test_a_schema_fault_is_a_correctable_error() -> None:
    (call,) = judge_calls([ok("book", item="chair", qty="three")], TOOLS)
    assert isinstance(call, RefusedCall)
    assert call.code == "invalid_arguments"
    assert 'qty: "three" is a string, expected integer' in message_of(call)
    assert call.effect == "mutation"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"status": "invalid_arguments", "arguments_text": None}, "invalid_arguments"),
        ({"status": "incomplete", "arguments_text": None}, "incomplete_call"),
        ({"is_repaired": True}, "repaired_arguments"),
        ({"arguments_text": None}, "invalid_arguments"),
    ],
)
def test_arguments_that_cannot_be_trusted_are_refused_with_their_problem(
    changes: dict[str, Any], code: str
) -> None:
    call = ok("lookup", key="k").model_copy(update={"problem": "the reason.", **changes})
    (refused,) = judge_calls([call], TOOLS)
    assert isinstance(refused, RefusedCall)
    assert refused.code == code
    assert "the reason" in message_of(refused)
    assert "Nothing was done" in message_of(refused)


def test_hooks_are_asked_in_the_models_order_and_before_anything_is_returned() -> None:
    seen: list[tuple[int, str]] = []

    def note(call: PlannedCall) -> Verdict:
        seen.append((call.position, str(call.arguments["key"])))
        return Cleared(call.arguments_text)

    calls = [ok("lookup", "c1", key="a"), ok("nothing", "c2"), ok("lookup", "c3", key="b")]
    judged = judge_calls(calls, TOOLS, [note])
    assert seen == [(0, "a"), (2, "b")]
    assert [call.model_id for call in judged] == ["c1", "c2", "c3"]


def test_the_first_denial_stands_and_later_hooks_are_not_asked() -> None:
    asked: list[str] = []

    def deny(call: PlannedCall) -> Verdict:
        return Denied("denied", f"{call.name} is off today.")

    def later(call: PlannedCall) -> Verdict:
        asked.append(call.name)
        return Cleared(call.arguments_text)

    (call,) = judge_calls([ok("lookup", key="a")], TOOLS, iter([deny, later]))
    assert isinstance(call, RefusedCall)
    assert (call.code, asked) == ("denied", [])
    assert message_of(call) == "lookup is off today."


def test_a_raising_hook_denies_and_the_siblings_are_judged_as_usual() -> None:
    def burst(call: PlannedCall) -> Verdict:
        if call.position == 0:
            raise RuntimeError("policy server is gone")
        return Cleared(call.arguments_text)

    first, second = judge_calls([ok("lookup", key="a"), ok("lookup", key="b")], TOOLS, [burst])
    assert "policy server is gone" in message_of(first)
    assert isinstance(second, ClearedCall)


def test_a_hook_cannot_change_the_arguments() -> None:
    def swap(call: PlannedCall) -> Verdict:
        return Cleared(call.arguments_text.replace("a", "b"))

    (call,) = judge_calls([ok("lookup", key="a")], TOOLS, [swap])
    assert isinstance(call, RefusedCall)
    assert call.code == "preflight_error"


def test_an_owner_is_asked_as_soon_as_one_hook_wishes_so() -> None:
    def clear(call: PlannedCall) -> Verdict:
        return Cleared(call.arguments_text)

    def ask(call: PlannedCall) -> Verdict:
        return Asked(call.arguments_text)

    for hooks in ([clear, ask], [ask, clear], [ask, ask]):
        (call,) = judge_calls([ok("lookup", key="a")], TOOLS, hooks)
        assert isinstance(call, ClearedCall)
        assert call.needs_approval
    (call,) = judge_calls([ok("lookup", key="a")], TOOLS, [clear])
    assert isinstance(call, ClearedCall)
    assert not call.needs_approval


def test_an_owner_is_not_asked_about_other_bytes() -> None:
    def swap(call: PlannedCall) -> Verdict:
        return Asked(call.arguments_text.replace("a", "b"))

    (call,) = judge_calls([ok("lookup", key="a")], TOOLS, [swap])
    assert isinstance(call, RefusedCall)


def test_hooks_given_as_an_iterator_are_asked_for_every_call() -> None:
    def deny(call: PlannedCall) -> Verdict:
        return Denied("denied", call.name)

    def hooks() -> Iterator[Any]:
        yield deny

    judged = judge_calls([ok("lookup", key="a"), ok("lookup", key="b")], TOOLS, hooks())
    assert all(isinstance(call, RefusedCall) for call in judged)


def test_a_typed_fault_the_schema_cannot_say_is_found_before_an_owner_is_asked() -> None:
    import datetime

    @umbel.tool()
    def meet(day: datetime.date) -> str:
        """Meet."""
        return str(day)

    tool = from_function(meet)
    frozen = {"meet": tool.frozen()}
    hook = TypedArgumentsCheck(ToolRegistry([tool]))
    bad, good = judge_calls([ok("meet", day="soon"), ok("meet", day="2026-03-01")], frozen, [hook])
    assert "day: " in message_of(bad)
    assert isinstance(good, ClearedCall)


def test_bad_paths_that_the_schema_can_refuse_are_refused_before_the_tool() -> None:
    case = json.loads(
        (Path(__file__).parents[1] / "data/cases/badinput/21-path-traversal.json").read_text()
    )
    assert "" in case["given"]["path"]
    schema = {"type": "object", "properties": {"path": {"type": "string", "minLength": 1}}}
    tools = {"read_file": {**TOOLS["lookup"], "input_schema": schema}}
    (call,) = judge_calls([ok("read_file", path="")], tools)
    assert isinstance(call, RefusedCall)
