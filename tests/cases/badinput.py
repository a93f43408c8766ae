"""Bad-input cases: what enters by a channel that exists is sent for real, twenty times at once.

The envelopes are described in tests/data/cases/badinput/ABOUT.md. Each becomes an ordinary case:
the scripted model sends the bad arguments, then answers with text.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.cases.case_file import Case
from tests.cases.expectations import compare
from tests.cases.found import Found
from tests.cases.invariants import broken_invariants
from tests.cases.record import read_record
from tests.cases.run_case import Verdict, until_settled
from tests.cases.system import CaseSystem, case_system
from tests.services import Services
from tools.registry import load_registry

AT_ONCE: Final = 20
SECRET: Final = "TOP-SECRET-OF-ANOTHER-RUN"
_USAGE: Final = {"input": 10, "output": 5}
_CHANNELS_LATER: Final = {
    "http_body": "the HTTP API is not there yet",
    "http_body_each": "the HTTP API is not there yet",
    "http_query": "the HTTP API is not there yet",
    "http": "the HTTP API is not there yet",
    "webhook_in": "webhooks are not there yet",
    "approval": "approvals are not there yet",
    "template_vars": "prompt templates are not there yet",
    "tool_result": "approvals are not there yet",
    "web_response": "the web tools are not there yet",
    "web_server_script": "the web tools are not there yet",
}


@dataclass(frozen=True, slots=True)
class BadInput:
    """An envelope as a case that can be run."""

    case: Case
    builtin: tuple[str, ...] = ()


def run_bad_inputs(services: Services, paths: Sequence[Path]) -> list[Verdict]:
    """A verdict for every envelope, in the order of the files."""
    verdicts: dict[Path, Verdict] = {}
    inputs: dict[Path, BadInput] = {}
    with tempfile.TemporaryDirectory(prefix="umbel-badinput-") as name:
        folder = Path(name).resolve()
        for path in paths:
            made = _case_of(path, folder)
            if isinstance(made, str):
                verdicts[path] = Verdict(Case(path, {}), "unsupported", (made,))
            else:
                inputs[path] = made
        if inputs:
            with case_system(services, [made.case for made in inputs.values()]) as system:
                for path, made in inputs.items():
                    verdicts[path] = _verdict(system, made, folder)
    return [verdicts[path] for path in paths]


def _case_of(path: Path, folder: Path) -> BadInput | str:
    """The case of an envelope, or why there is none."""
    envelope = json.loads(path.read_text(encoding="utf-8"))
    make = _CHANNELS.get(envelope["channel"])
    if make is None:
        known = _CHANNELS_LATER.get(envelope["channel"])
        return known or f"the channel {envelope['channel']!r} is unknown"
    data = make(envelope["given"], folder)
    if isinstance(data, str):
        return data
    # Workers read their tools from files.
    written = folder / path.name
    written.write_text(json.dumps(data), encoding="utf-8")
    return BadInput(Case(written, data), tuple(data.get("builtin", ())))


def _from_model(given: Mapping[str, Any], _: Path) -> dict[str, Any] | str:
    """The model sends arguments that nobody may act upon, for a tool that would take anything."""
    tool = {
        "name": given["tool"],
        "description": given["tool"],
        "schema": {"type": "object"},
        "effect": "mutation" if given.get("mutates") else "read",
        "behaviour": {"result": "done"},
    }
    raw = given["arguments_raw"] if "arguments_raw" in given else generated(given["generate"])
    call = {"id": "c1", "name": given["tool"], "arguments_raw": raw}
    return {
        **_envelope([call], {"c1": {"error": True}}),
        "tools": [tool],
        "expect": {
            **_envelope([call], {"c1": {"error": True}})["expect"],
            "executions": {given["tool"]: 0},
            "starts": {given["tool"]: 0},
            "actions": {"c1": {"state": None}},
        },
    }


def _each_for_tool(given: Mapping[str, Any], folder: Path) -> dict[str, Any] | str:
    """Every value of one argument, as a call of one of the product's own tools."""
    name = given["tool"]
    if name not in load_registry(()):
        return f"the tool {name!r} is not there yet"
    argument, values = next((k, v) for k, v in given.items() if isinstance(v, list))
    root = given.get("root", "/ws/run1")
    calls = [
        {"id": f"c{i}", "name": name, "arguments": {argument: _placed(value, root, folder)}}
        for i, value in enumerate(values, 1)
    ]
    wish = {"error": True, "not_contains": [SECRET, "root:x:0"]}
    return {**_envelope(calls, {call["id"]: wish for call in calls}), "builtin": [name]}


_CHANNELS: Final[dict[str, Callable[[Mapping[str, Any], Path], dict[str, Any] | str]]] = {
    "model_tool_call": _from_model,
    "tool_args_each": _each_for_tool,
}


def generated(recipe: Mapping[str, Any]) -> str:
    """The text of a `generate` recipe."""
    return "".join(
        (
            recipe.get("prefix", ""),
            recipe["unit"] * recipe["times"],
            recipe.get("suffix", ""),
            recipe.get("unit2", "") * recipe.get("times2", 0),
            recipe.get("suffix2", ""),
        )
    )


def _envelope(calls: Sequence[Mapping[str, Any]], results: Mapping[str, Any]) -> dict[str, Any]:
    """One turn with the calls, one with text; the run must go on and nothing may be lost."""
    return {
        "format": 1,
        "run": {"input": "Do what is needed."},
        "tools": [],
        "turns": [
            {"tool_calls": list(calls), "usage": _USAGE},
            {"text": "That did not work.", "usage": _USAGE},
        ],
        "expect": {
            "status": "completed",
            "model_calls": 2,
            "usage": {"entries": 2, "input": 20, "output": 10},
            "tool_results": dict(results),
        },
    }


def _placed(value: str, root: str, folder: Path) -> str:
    """A path below the imagined root, in the real folder."""
    return value.replace(root, str(_workspace(folder))) if value.startswith(root) else value


def _workspace(folder: Path) -> Path:
    """The run's root with neighbours that hold a secret; made on first use."""
    root = folder / "ws" / "run1"
    if not root.exists():
        for place in (root / "a", folder / "ws" / "run2", folder / "ws" / "run1-evil"):
            place.mkdir(parents=True)
        (folder / "ws" / "run2" / "secret.txt").write_text(SECRET)
        (folder / "ws" / "run1-evil" / "x").write_text(SECRET)
    return root


def _verdict(system: CaseSystem, made: BadInput, folder: Path) -> Verdict:
    system.stage.workers.wait_ready()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        path = made.case.path
        copies = [
            # The scripted server tells runs apart by their model, and that is named after the path.
            Case(path.with_stem(f"{path.stem}-{number}"), made.case.data)
            for number in range(AT_ONCE)
        ]
        found = list(pool.map(lambda case: _problems(system, case, made, folder), copies))
    problems = sorted({problem for each in found for problem in each})
    if dead := system.stage.workers.died_unasked():
        problems.append(f"workers ended by themselves: {dead}")
    outcome: Any = "failed" if problems else "passed"
    log = system.stage.workers.log() if problems else ""
    return Verdict(made.case, outcome, tuple(problems), log=log)


def _problems(system: CaseSystem, case: Case, made: BadInput, folder: Path) -> list[str]:
    return list(_found(system, case, made, folder))


def _found(system: CaseSystem, case: Case, made: BadInput, folder: Path) -> Iterator[str]:
    world = system.enter(case, builtin=made.builtin, workspace=_workspace(folder))
    statuses = until_settled(system, world)
    record = read_record(system.stage.database, world.run_id)
    yield from compare(Found(world, record, statuses))
    yield from broken_invariants(system.stage.database, world.run_id)
