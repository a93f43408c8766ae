"""What the cases of bad inputs are made of."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_USAGE: Final = {"input": 10, "output": 5}


def tool_taking_anything(name: str, *, changes: bool, result: str = "done") -> dict[str, Any]:
    """A scripted tool that refuses nothing by itself."""
    return {
        "name": name,
        "description": name,
        "schema": {"type": "object"},
        "effect": "mutation" if changes else "read",
        "behaviour": {"result": result},
    }


def case_data(
    steps: Sequence[Sequence[Mapping[str, Any]]],
    tools: Sequence[Mapping[str, Any]],
    expect: Mapping[str, Any],
    policy: str = "full_access",
) -> dict[str, Any]:
    """The data of a case: one turn for the calls of each step; no calls are a text.

    Every turn must be asked for and counted, once.
    """
    number = len(steps)
    said = {"text": "That did not work."}
    turns = [{"tool_calls": list(calls)} if calls else said for calls in steps]
    usage = {name: tokens * number for name, tokens in _USAGE.items()}
    return {
        "format": 1,
        "run": {"input": "Do what is needed.", "policy": policy},
        "tools": list(tools),
        "turns": [{**turn, "usage": _USAGE} for turn in turns],
        "expect": {"model_calls": number, "usage": {"entries": number, **usage}, **expect},
    }
