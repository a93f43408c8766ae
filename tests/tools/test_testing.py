"""umbel.testing, the part of this that authors of tools import."""

import datetime
from pathlib import Path
from typing import Any

import pytest

import umbel
from umbel.errors import InvalidInput, Misconfigured
from umbel.testing import UnknownOutcome, call_tool


@umbel.tool(effect="read")
def echo(day: datetime.date, pair: tuple[int, int] = (1, 2)) -> object:
    """Give back what came in."""
    return {"weekday": day.weekday(), "pair": pair, "day": day}


def test_arguments_arrive_typed_and_the_result_is_what_a_model_would_read() -> None:
    result = call_tool(echo, day=datetime.date(2026, 3, 2))
    assert result == {"weekday": 0, "pair": [1, 2], "day": "2026-03-02"}


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ({}, "missing"),
        ({"day": "2026-03-02", "extra": 1}, "unexpected"),
        ({"day": "someday"}, "day: "),
        ({"day": "2026-03-02", "pair": [1]}, "pair"),
    ],
)
def test_arguments_a_model_would_be_refused_are_refused(
    arguments: dict[str, Any], fact: str
) -> None:
    with pytest.raises(InvalidInput, match=fact):
        call_tool(echo, **arguments)


def test_a_function_that_is_no_tool_is_refused() -> None:
    with pytest.raises(Misconfigured, match="mark it with"):
        call_tool(lambda: 1)


def test_a_failed_read_is_a_tool_failure() -> None:
    @umbel.tool(effect="read")
    def broken() -> None:
        """Break."""
        raise ValueError("no luck")

    with pytest.raises(umbel.ToolFailed, match="ValueError: no luck"):
        call_tool(broken)


def test_a_mutation_that_breaks_is_unknown() -> None:
    @umbel.tool()
    def broken() -> None:
        """Break."""
        raise ConnectionError("reset")

    with pytest.raises(UnknownOutcome, match="ConnectionError: reset"):
        call_tool(broken)


def test_the_workspace_is_the_real_one(tmp_path: Path) -> None:
    @umbel.tool(effect="read")
    def peek(context: umbel.ToolContext, path: str) -> str:
        """Peek."""
        context.progress("looking")
        return context.workspace.read_text(path)

    (tmp_path / "a").write_text("1")
    assert call_tool(peek, workspace=tmp_path, path="a") == "1"
    with pytest.raises(umbel.ToolFailed, match="leads out"):
        call_tool(peek, workspace=tmp_path, path="../a")
    with pytest.raises(umbel.ToolFailed, match="no workspace"):
        call_tool(peek, path="a")
