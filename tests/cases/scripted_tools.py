"""The scripted tools inside a worker: they do what the coordinator tells them.

Named in UMBEL_TOOLS. UMBEL_CASE_FILES lists the case files whose tools exist,
UMBEL_CASE_COORDINATOR says where the coordinator listens.
"""

import base64
import builtins
import datetime
import decimal
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.cases.case_file import Case, load_case
from tests.cases.coordinator_client import tell
from tools.builtin import BUILTIN
from tools.definition import Tool
from umbel.tool import DEFAULT_STALL_SECONDS, ToolContext

_BUILTIN_NAMES: Final = frozenset(function.__name__ for function in BUILTIN)


class CustomTwoArgumentError(Exception):
    """An exception that nothing can build or store again by itself."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.lock = threading.Lock()


def real_name(name: str) -> str:
    """The name under which the product gets a tool: its own built-in ones keep theirs."""
    return f"{name}_scripted" if name in _BUILTIN_NAMES else name


def tools_of(case: Case) -> list[Tool]:
    """The tools of one case."""
    silence = case.run.get("limits", {}).get("tool_inactivity_seconds", DEFAULT_STALL_SECONDS)
    return [_tool(entry, float(silence)) for entry in case.tools]


def tools_of_files(paths: Iterable[Path]) -> list[Tool]:
    """The tools of several cases; those of one name are the same tool."""
    found = {tool.name: tool for path in paths for tool in tools_of(load_case(path))}
    return list(found.values())


def _tool(entry: Mapping[str, Any], silence: float) -> Tool:
    return Tool(
        name=real_name(entry["name"]),
        description=entry.get("description") or entry["name"],
        input_schema=entry.get("schema") or {"type": "object"},
        function=_function(entry["name"]),
        effect=entry.get("effect", "mutation"),
        stall_seconds=silence,
        repeatable=bool(entry.get("repeatable", False)),
    )


def _function(name: str) -> Callable[..., object]:
    def scripted(umbel_context: ToolContext, **arguments: object) -> object:
        visit = {
            "tool": name,
            "run_id": umbel_context.run_id,
            "call_id": umbel_context.call_id,
        }
        action = tell("/tool/entered", visit)["action"]
        return _act(action, visit, umbel_context)

    scripted.__name__ = name
    return scripted


def _act(action: Mapping[str, Any], visit: Mapping[str, str], context: ToolContext) -> object:
    while not action.keys() & {"result", "stream"}:
        if "source" in action:
            context.source("note", visit["run_id"], action["source"])
            action = action["then"]
            continue
        if "raise" in action:
            raise _exception(action["raise"])
        _pass_time(action, context)
        action = action["then"]
    if "stream" in action:
        return _pieces(action["stream"], visit)
    value = _value(action["result"])
    tell("/tool/effect", visit)
    return value


def _pieces(stream: Mapping[str, Any], visit: Mapping[str, str]) -> Iterator[str]:
    for _ in range(stream["times"]):
        yield stream["piece"]
    tell("/tool/effect", visit)


def _pass_time(action: Mapping[str, Any], context: ToolContext) -> None:
    silence = threading.Event()
    if "resource" in action:
        context.record_resource(action["resource"])
        return
    if "sleep" in action:
        silence.wait(float(action["sleep"]))
        return
    every, total = float(action["progress"]["every"]), float(action["progress"]["for"])
    for _ in range(round(total / every)):
        silence.wait(every)
        context.progress("still at it")


def _exception(wanted: Mapping[str, str]) -> Exception:
    kind, message = wanted["type"], wanted.get("message", "")
    if kind == "custom_two_arg_init":
        return CustomTwoArgumentError("E2", message)
    known = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, Exception):
        return known(message)
    made: type[Exception] = type(kind, (Exception,), {})
    return made(message)


def _value(result: Any) -> object:
    match result:
        case {"$py": "datetime", "iso": str(iso)}:
            return datetime.datetime.fromisoformat(iso)
        case {"$py": "decimal", "value": str(value)}:
            return decimal.Decimal(value)
        case {"$py": "bytes", "b64": str(encoded)}:
            return base64.b64decode(encoded)
        case {"$py": kind}:
            raise ValueError(f"{kind!r} is no kind of value this runner knows.")
        case _:
            return result


TOOLS: Final = tools_of_files(
    Path(name) for name in os.environ.get("UMBEL_CASE_FILES", "").split(os.pathsep) if name
)
