"""The run of a crash test: a model that answers by what it is shown, and five tools."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.cases.case_file import Case
from tests.cases.happenings import Event, Occurrence
from tests.cases.scripted_model import Answer, Received, ScriptedModel
from tests.cases.scripted_tools import real_name
from tests.cases.world import World
from tests.chaos.points_ways import Tool
from tests.runs.scenes import a_case, asks, text

_PROGRESS_SECONDS: Final = 1.1
"""Progress is written at most once a second."""


_NARROW: Final = {"context_window": 2_000, "output_reserve": 200}
_THICK: Final = "thick " * 500
"""Two of these do not fit into a request to that model, one does."""


@dataclass(slots=True)
class ReadingModel(ScriptedModel):
    """Its turn is the number of its own replies in the request: asked again, it answers again."""

    def _main(self, received: Received) -> Answer:
        messages = received.body.get("messages", [])
        spoken = sum(message.get("role") == "assistant" for message in messages)
        received.turn = min(spoken, len(self.case.turns) - 1) + 1
        received.outcome = "answer"
        return self._text(received, self.case.turns[received.turn - 1])


def a_world(case: Case) -> World:
    """The outside of one run; nothing is scheduled to happen in it."""
    world = World(case, _perform)
    names = {tool["name"]: real_name(tool["name"]) for tool in case.tools}
    world.model = ReadingModel(case, world.happenings, names)
    return world


def a_run_with(tool: Tool, title: str, *, asks_first: bool = False) -> Case:
    """A case whose model asks for one call of `tool`, and then answers.

    Of `thick_note` it asks for two, one after the other: the second needs a summary of the first.
    """
    is_thick = tool == "thick_note"
    turns = [asks((call, tool)) for call in (("c1", "c2") if is_thick else ("c1",))]
    if tool == "source_and_mail":
        turns = [asks(("c1", "read_source"), ("c2", "slow_mail"))]
    run: dict[str, Any] = {"model": _NARROW} if is_thick else {}
    run |= {"policy": "ask"} if asks_first else {}
    case = a_case(title, [*turns, text()], **run)
    case.data["tools"] = [*_tools(case), _like(case, "lost_tool", {"result": "ok"})]
    return case


def write_point_tools(folder: Path) -> Case:
    """A file from which workers learn the tools: all but one."""
    case = a_case("point-tools", [])
    case.data["tools"] = _tools(case)
    path = folder / "point_tools.json"
    path.write_text(json.dumps(case.data))
    return Case(path, case.data)


def _tools(case: Case) -> list[dict[str, Any]]:
    slowly = {"every": _PROGRESS_SECONDS, "for": _PROGRESS_SECONDS}
    slow = {"progress": slowly, "then": {"resource": "MAIL-1", "then": {"result": "ok"}}}
    slow = _like(case, "slow_mail", slow)
    long = _like(case, "long_note", {"stream": {"piece": "A line of a note.\n", "times": 20_000}})
    thick = _like(case, "thick_note", {"result": _THICK})
    sourced = _like(case, "read_source", {"source": "1", "then": {"result": "ok"}})
    return [*case.tools, {**slow, "effect": "mutation"}, long, thick, sourced]


def _like(case: Case, name: str, behaviour: dict[str, Any]) -> dict[str, Any]:
    return {**case.tools[0], "name": name, "description": name, "behaviour": behaviour}


def _perform(_: World, event: Event, __: Occurrence) -> str | None:
    raise AssertionError(f"no event belongs here: {event}")
