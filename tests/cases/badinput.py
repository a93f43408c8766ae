"""Bad-input cases: what enters by a channel that exists is sent for real, twenty times at once.

The envelopes are described in tests/data/cases/badinput/ABOUT.md. Each becomes an ordinary case:
the scripted model sends the bad arguments, then answers with text. What a case cannot say is looked
at by the probe of its channel, once all copies have come to rest.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.cases.actions import Stage
from tests.cases.badinput_approvals import (
    injected_result,
    injected_text_is_only_text,
    only_approved_bytes_are_sent,
    other_arguments,
)
from tests.cases.badinput_scripts import case_data, tool_taking_anything
from tests.cases.badinput_web import (
    ScriptedWeb,
    every_hop_was_asked_once,
    huge_answer,
    nothing_has_grown,
    redirecting_server,
    scripted_web,
)
from tests.cases.case_file import Case
from tests.cases.expectations import compare
from tests.cases.found import Found
from tests.cases.invariants import broken_invariants
from tests.cases.record import read_record
from tests.cases.run_case import Verdict, until_settled
from tests.cases.system import CaseSystem, Cast, case_system
from tests.cases.world import World
from tests.services import Services
from tools.registry import load_registry

AT_ONCE: Final = 20
SECRET: Final = "TOP-SECRET-OF-ANOTHER-RUN"
_CHANNELS_LATER: Final = {
    "http_body": "the HTTP API is not there yet",
    "http_body_each": "the HTTP API is not there yet",
    "http_query": "the HTTP API is not there yet",
    "http": "the HTTP API is not there yet",
    "webhook_in": "webhooks are not there yet",
    "template_vars": "prompt templates are not there yet",
}


@dataclass(frozen=True, slots=True)
class Around:
    """What lies around the runs of bad inputs."""

    folder: Path
    web: ScriptedWeb


Probe = Callable[[Stage, Sequence[World]], Iterator[str]]
Statuses = list[tuple[str, str | None]]


@dataclass(frozen=True, slots=True)
class BadInput:
    """An envelope as a case that can be run."""

    case: Case
    builtin: tuple[str, ...] = ()
    probe: Probe | None = None
    """What is wrong with all copies, beyond what the case says."""


def run_bad_inputs(services: Services, paths: Sequence[Path]) -> list[Verdict]:
    """A verdict for every envelope, in the order of the files."""
    verdicts: dict[Path, Verdict] = {}
    inputs: dict[Path, BadInput] = {}
    with tempfile.TemporaryDirectory(prefix="umbel-badinput-") as name, scripted_web() as web:
        folder = Path(name).resolve()
        for path in paths:
            made = _case_of(path, Around(folder, web))
            if isinstance(made, str):
                verdicts[path] = Verdict(Case(path, {}), "unsupported", (made,))
            else:
                inputs[path] = made
        if inputs:
            cast = Cast(environment={"UMBEL_WEB_ALLOW": web.allowed})
            with case_system(services, [made.case for made in inputs.values()], cast) as system:
                for path, made in inputs.items():
                    verdicts[path] = _verdict(system, made, folder)
    return [verdicts[path] for path in paths]


def _case_of(path: Path, around: Around) -> BadInput | str:
    """The case of an envelope, or why there is none."""
    envelope = json.loads(path.read_text(encoding="utf-8"))
    given, name = envelope["given"], envelope["channel"]
    channel = _CHANNELS.get(name)
    if channel is None:
        return _CHANNELS_LATER.get(name) or f"the channel {name!r} is unknown"
    data = channel.make(given, around)
    if isinstance(data, str):
        return data
    # Workers read their tools from files.
    written = around.folder / path.name
    written.write_text(json.dumps(data), encoding="utf-8")
    return BadInput(
        Case(written, data),
        tuple(data.get("builtin", ())),
        None if channel.look is None else partial(channel.look, given, around),
    )


def _from_model(given: Mapping[str, Any], _: Around) -> dict[str, Any] | str:
    """The model sends arguments that nobody may act upon, for a tool that would take anything."""
    name = given["tool"]
    raw = given["arguments_raw"] if "arguments_raw" in given else generated(given["generate"])
    call = {"id": "c1", "name": name, "arguments_raw": raw}
    tools = [tool_taking_anything(name, changes=bool(given.get("mutates")))]
    expect = {
        "status": "completed",
        "tool_results": {"c1": {"error": True}},
        "executions": {name: 0},
        "starts": {name: 0},
        "actions": {"c1": {"state": None}},
    }
    return case_data([[call], []], tools, expect)


def _each_for_tool(given: Mapping[str, Any], around: Around) -> dict[str, Any] | str:
    """Every value of one argument, as a call of one of the product's own tools."""
    name = given["tool"]
    if name not in load_registry(()):
        return f"the tool {name!r} is not there yet"
    argument = next(key for key, value in given.items() if isinstance(value, list))
    values: list[str] = given[argument]
    root = given.get("root", "/ws/run1")
    calls = [
        {"id": f"c{i}", "name": name, "arguments": {argument: _placed(value, root, around.folder)}}
        for i, value in enumerate(values, 1)
    ]
    wish = {"error": True, "not_contains": [SECRET, "root:x:0"]}
    expect = {"status": "completed", "tool_results": {call["id"]: wish for call in calls}}
    return {**case_data([calls, []], [], expect), "builtin": [name]}


Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Channel:
    """How an input enters, and what is looked at when all has come to rest."""

    make: Callable[[Given, Around], dict[str, Any] | str]
    look: Callable[[Given, Around, Stage, Sequence[World]], Iterator[str]] | None = None


_CHANNELS: Final = {
    "model_tool_call": _Channel(_from_model),
    "tool_args_each": _Channel(_each_for_tool),
    "tool_result": _Channel(
        lambda given, _: injected_result(given),
        lambda given, _, stage, worlds: injected_text_is_only_text(given, stage, worlds),
    ),
    "approval": _Channel(
        lambda given, _: other_arguments(given),
        lambda given, _, stage, worlds: only_approved_bytes_are_sent(given, stage, worlds),
    ),
    "web_response": _Channel(
        lambda given, around: huge_answer(given, around.web),
        lambda _, around, stage, worlds: nothing_has_grown(stage, worlds, around.web),
    ),
    "web_server_script": _Channel(
        lambda given, around: redirecting_server(given, around.web),
        lambda given, around, _, worlds: every_hop_was_asked_once(given, worlds, around.web),
    ),
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
    workspace = _workspace(folder)  # before the copies, that would make it all at once
    with ThreadPoolExecutor(AT_ONCE) as pool:
        path = made.case.path
        copies = [
            # The scripted server tells runs apart by their model, and that is named after the path.
            Case(path.with_stem(f"{path.stem}-{number}"), made.case.data)
            for number in range(AT_ONCE)
        ]
        played = list(pool.map(partial(_play, system, made, workspace), copies))
    found = _all_problems(system, played)
    if made.probe is not None and not found:
        found = [*made.probe(system.stage, [world for world, _ in played])]
        found += _all_problems(system, played)
    problems = sorted(set(found))
    if dead := system.stage.workers.died_unasked():
        problems.append(f"workers ended by themselves: {dead}")
    outcome: Any = "failed" if problems else "passed"
    log = system.stage.workers.log() if problems else ""
    return Verdict(made.case, outcome, tuple(problems), log=log)


def _play(
    system: CaseSystem, made: BadInput, workspace: Path, case: Case
) -> tuple[World, Statuses]:
    world = system.enter(case, builtin=made.builtin, workspace=workspace)
    return world, until_settled(system, world)


def _all_problems(system: CaseSystem, played: Sequence[tuple[World, Statuses]]) -> list[str]:
    return [line for world, statuses in played for line in _problems(system, world, statuses)]


def _problems(system: CaseSystem, world: World, statuses: Statuses) -> Iterator[str]:
    record = read_record(system.stage.database, world.run_id)
    yield from compare(Found(world, record, statuses))
    yield from broken_invariants(system.stage.database, world.run_id)
