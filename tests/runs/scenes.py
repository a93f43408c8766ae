"""Short ways to write a case in a test: two tools, a few turns."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.cases.case_file import Case
from tests.cases.record import Record, read_record
from tests.cases.run_case import until_settled
from tests.cases.system import CaseSystem
from tests.cases.world import World

USAGE: Final = {"input": 100, "output": 10}
_SCHEMA: Final = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}
_EFFECTS: Final = {"read_note": "read", "send_mail": "mutation"}


def text(words: str = "Done.", **more: Any) -> dict[str, Any]:
    """A turn that answers."""
    return {"text": words, "usage": USAGE, **more}


def asks(*calls: tuple[str, str], **more: Any) -> dict[str, Any]:
    """A turn that asks for tools, each as (id, tool)."""
    wanted = [{"id": i, "name": tool, "arguments": {"id": i}} for i, tool in calls]
    return {"tool_calls": wanted, "usage": USAGE, **more}


def reads(*ids: str) -> dict[str, Any]:
    """A turn that asks for reads."""
    return asks(*((i, "read_note") for i in ids))


def a_case(
    title: str,
    turns: Sequence[Mapping[str, Any]],
    *,
    events: Sequence[Mapping[str, Any]] = (),
    behaviour: Mapping[str, Any] | None = None,
    **run: Any,
) -> Case:
    """A case over `read_note` (a read) and `send_mail` (a change).

    Args:
        title: names the case and its model.
        turns: what the model answers.
        events: what happens around it.
        behaviour: what both tools do; by default they return at once.
        run: further settings of the run.
    """
    tools = [
        {
            "name": name,
            "description": name,
            "schema": _SCHEMA,
            "effect": effect,
            "behaviour": behaviour or {"result": "ok"},
        }
        for name, effect in _EFFECTS.items()
    ]
    data = {
        "format": 1,
        "run": {"input": "Look after the notes.", **run},
        "tools": tools,
        "turns": list(turns),
        "events": list(events),
    }
    return Case(Path(f"{title}.json"), data)


def write_tools(folder: Path) -> Case:
    """A file from which workers learn the two tools."""
    case = a_case("tools", [])
    path = folder / "tools.json"
    path.write_text(json.dumps(case.data))
    return Case(path, case.data)


def follow(system: CaseSystem, world: World) -> Record:
    """Wait until the run has settled, and read everything about it."""
    try:
        seen = until_settled(system, world)
    finally:
        world.model.is_over.set()
    record = read_record(system.stage.database, world.run_id)
    assert record.run["settled_at"] is not None, f"{seen}\n{system.stage.workers.log()}"
    assert not world.problems, world.problems
    return record


def decided(record: Record) -> list[tuple[int, str]]:
    """Steps with the decisions that were applied."""
    return [(m["step"], m["decision"]) for m in record.model_calls if m["decision"] is not None]
