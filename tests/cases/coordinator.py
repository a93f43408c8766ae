"""One server for all cases of a worker set: the model, the tools' reports, the fault points."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from models.database import Database
from tests.cases.happenings import Occurrence
from tests.cases.http_server import Route, serving
from tests.cases.record import case_id_of_call, deliveries_of
from tests.cases.scripted_ledger import ToolVisit
from tests.cases.scripted_model import Answer
from tests.cases.wire import error_body
from tests.cases.world import World

FAULT_POINTS: Final = {
    "before_model": "model.in_flight",
    "after_model": "decide.post_commit",
    "after_tool": "call.receipt_post",
    "after_delivery": "decide.post_commit",
}
"""Which of the product's points stands for which of the cases'; the others are outside of it."""


class Coordinator:
    """Knows the worlds of all running cases by model name and by run."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._by_model: dict[str, World] = {}
        self._by_run: dict[str, World] = {}
        self._routes: dict[str, Route] = {
            "/v1/chat/completions": self._chat,
            "/tool/entered": self._entered,
            "/tool/effect": self._effect,
            "/point": self._point,
        }

    @contextlib.contextmanager
    def listening(self) -> Iterator[str]:
        """Serve during the block; yields the address."""
        with serving(self._routes.get) as address:
            yield address

    def add(self, world: World, run_id: str) -> None:
        """Make a case known before its run is accepted."""
        world.run_id = run_id
        self._by_model[world.case.model] = world
        self._by_run[run_id] = world

    def _chat(self, body: bytes, purpose: str) -> Answer:
        world = self._by_model.get(_model_named_in(body))
        if world is None:
            return Answer(404, body=error_body("model_not_found", "no case has this model"))
        return world.model.answer(body, purpose)

    def _entered(self, body: bytes, _: str) -> Answer:
        world, visit = self._visit(json.loads(body))
        return _told({"action": world.ledger.enter(visit)})

    def _effect(self, body: bytes, _: str) -> Answer:
        world, visit = self._visit(json.loads(body))
        world.ledger.commit(visit)
        return _told({})

    def _point(self, body: bytes, _: str) -> Answer:
        message = json.loads(body)
        facts: Mapping[str, str] = message["facts"]
        world = self._world_of(facts)
        if world is not None:
            occurrence = Occurrence(message["pid"], facts)
            for point in self._case_points(world, message["point"], facts):
                world.happenings.reach(point, occurrence)
        return _told({})

    def _case_points(self, world: World, point: str, facts: Mapping[str, str]) -> Iterator[str]:
        served = world.model.turns_served
        yield f"point:{point}"  # by the product's own name, for tests that arm more of them
        if point == FAULT_POINTS["before_model"]:
            yield f"before_model:{served + 1}"
        elif point == FAULT_POINTS["after_model"]:
            yield f"after_model:{served}"
            yield f"after_delivery:{len(deliveries_of(self._database, world.run_id))}"
        elif point == FAULT_POINTS["after_tool"]:
            yield f"after_tool:{self._case_call(world, facts['call_id'])}"

    def _world_of(self, facts: Mapping[str, str]) -> World | None:
        return self._by_run.get(facts.get("run_id", ""))

    def _visit(self, message: Mapping[str, Any]) -> tuple[World, ToolVisit]:
        world = self._by_run[message["run_id"]]
        call_id = message["call_id"]
        visit = ToolVisit(message["tool"], self._case_call(world, call_id), call_id, message["pid"])
        return world, visit

    def _case_call(self, world: World, call_id: str) -> str:
        if call_id not in world.call_ids:
            world.call_ids[call_id] = case_id_of_call(self._database, call_id)
        return world.call_ids[call_id]


def _model_named_in(body: bytes) -> str:
    try:
        return str(json.loads(body).get("model"))
    except (ValueError, AttributeError, RecursionError):
        return ""


def _told(answer: Mapping[str, Any]) -> Answer:
    return Answer(body=json.dumps(answer).encode())
