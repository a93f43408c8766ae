import datetime
import json
from collections.abc import Callable
from typing import Any, Literal

import pytest

import umbel
from loop.outcome import Errored, Returned, Unknown
from tools.definition import Tool, from_function
from tools.execution import run_tool
from tools.failure import failure_of
from tools.trial import TrialContext
from umbel.errors import InvalidInput, NotFound
from umbel.names import EFFECTS, Effect
from umbel.tool import ToolFailed

OPEN: dict[str, Any] = {"type": "object", "properties": {}}


class TwoArguments(Exception):
    """An exception that cannot be pickled, copied or built from its message."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{reason} ({code})")
        self.lock = __import__("threading").Lock()


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Refused(ToolFailed):
    """A definite failure of a tool's own kind."""


def raising(error: BaseException) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


def tool_of(function: Callable[..., object], effect: Effect = "read") -> Tool:
    return Tool(name="t", description="d", input_schema=OPEN, function=function, effect=effect)


def run(function: Callable[..., object], effect: Effect = "read", arguments: str = "{}") -> Any:
    return run_tool(tool_of(function, effect), arguments, TrialContext())


def error_of(outcome: object) -> dict[str, str]:
    assert isinstance(outcome, Errored), outcome
    error = json.loads(outcome.text)["error"]
    assert isinstance(error, dict)
    return error


def test_a_result_is_returned_as_stored_text() -> None:
    assert run(lambda: {"at": datetime.date(2026, 1, 2)}) == Returned('{"at":"2026-01-02"}')
    assert run(lambda: "a\x00") == Returned('"a\\u0000"', is_escaped=True)
    assert run(lambda: None) == Returned("null")


ERRORS: list[BaseException] = [
    ValueError("broken"),
    TwoArguments(7, "broken"),
    Silent(),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    RecursionError("broken"),
    MemoryError(),
    BaseExceptionGroup("several", [ValueError("a"), KeyboardInterrupt()]),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "broken \ud83d"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_read_raises_is_a_definite_error(error: BaseException) -> None:
    described = error_of(run(raising(error)))
    assert described["code"] == "tool_error"
    assert described["message"].startswith(type(error).__name__)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_mutation_raises_leaves_its_outcome_unknown(error: BaseException) -> None:
    outcome = run(raising(error), "mutation")
    assert isinstance(outcome, Unknown)
    assert outcome.detail.startswith(type(error).__name__)
    outcome.detail.encode()


@pytest.mark.parametrize("error", [ToolFailed("no such account"), Refused("no such account")])
@pytest.mark.parametrize("effect", EFFECTS)
def test_tool_failed_is_definite_for_every_effect(effect: Effect, error: ToolFailed) -> None:
    assert error_of(run(raising(error), effect)) == {
        "code": "tool_failed",
        "message": "no such account",
    }


def test_an_idempotent_tool_that_raises_may_be_asked_again() -> None:
    assert error_of(run(raising(OSError("reset")), "idempotent"))["message"] == "OSError: reset"


@pytest.mark.parametrize("error", [InvalidInput("bad path"), NotFound("no file")])
def test_a_refusal_inside_a_mutation_is_not_proof_that_nothing_happened(error: Exception) -> None:
    assert isinstance(run(raising(error), "mutation"), Unknown)


def test_refusals_of_umbel_keep_their_own_code_and_words() -> None:
    assert error_of(run(raising(NotFound("no file")))) == {
        "code": "not_found",
        "message": "no file",
    }
    assert error_of(run(raising(InvalidInput("bad"))))["code"] == "invalid_input"


def test_a_message_is_cut_storable_and_free_of_credentials() -> None:
    failure = failure_of(OSError("x\x00\ud83d https://bob:hunter2@db.example/ " + "y" * 10_000))
    assert len(failure.message) == 500
    assert failure.message.startswith("OSError: x\\u0000\\ud83d https://***@db.example/ yyy")
    failure.message.encode()


def test_a_mutation_whose_result_cannot_be_stored_is_done_all_the_same() -> None:
    outcome = run(object, "mutation")
    assert isinstance(outcome, Returned)
    assert "its change is done" in json.loads(outcome.text)["unreadable_result"]["message"]


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_another_tool_whose_result_cannot_be_stored_has_failed(effect: Effect) -> None:
    assert error_of(run(object, effect))["code"] == "unreadable_result"


def test_a_result_whose_own_code_raises_anything_is_a_value_too() -> None:
    class Trap(dict[str, int]):
        def items(self) -> Any:
            raise KeyboardInterrupt

    assert error_of(run(lambda: Trap(a=1)))["code"] == "unreadable_result"
    assert isinstance(run(lambda: Trap(a=1), "mutation"), Returned)


def test_a_coroutine_returned_by_mistake_is_an_error_without_a_late_warning() -> None:
    async def later() -> int:
        return 1

    assert error_of(run(lambda: later()))["code"] == "unreadable_result"


def test_arguments_arrive_by_name_and_the_context_beside_them() -> None:
    def plain(context: umbel.ToolContext, **arguments: object) -> object:
        return [context.call_id, arguments]

    outcome = run(plain, arguments='{"a":1,"b":[null]}')
    assert json.loads(outcome.text) == ["call_trial", {"a": 1, "b": [None]}]


def test_typed_arguments_arrive_typed() -> None:
    @umbel.tool(effect="read")
    def meet(day: datetime.date, mode: Literal["a", "b"] = "b", rate: float = 1) -> str:
        """Meet."""
        return f"{day:%d.%m.} {mode} {rate!r}"

    outcome = run_tool(from_function(meet), '{"day":"2026-03-01","rate":2}', TrialContext())
    assert outcome == Returned('"01.03. b 2.0"')


def test_arguments_that_do_not_fit_are_a_definite_error_before_a_mutation_is_entered() -> None:
    entered: list[int] = []

    @umbel.tool()
    def pay(day: datetime.date) -> None:
        """Pay."""
        entered.append(day.day)

    error = error_of(run_tool(from_function(pay), '{"day":"soon"}', TrialContext()))
    assert error["code"] == "invalid_arguments"
    assert "Nothing was done" in error["message"]
    assert entered == []
    assert error_of(run(raising(ValueError()), "mutation", "[]"))["code"] == "invalid_arguments"
