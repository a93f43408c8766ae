"""Real workers of both pools send one trace per run to a collector, and do not miss it."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.cases.http_server import serving
from tests.cases.scripted_model import Answer
from tests.cases.system import CaseSystem, Cast, case_system
from tests.models.story import change
from tests.runs.scenes import a_case, asks, follow, reads, text, write_tools
from tests.services import Services
from tests.tasks.traced import CALLER
from tests.worker_processes import PATIENT_CLOCKS, wait_until
from umbel.contracts import RunId

pytestmark = pytest.mark.slow

SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A span as it came over the wire, and who sent it."""

    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    role: str


@dataclass
class Collector:
    """Takes OTLP over HTTP; while `answers` is clear it is silent."""

    spans: list[Sent] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answers: Event = field(default_factory=Event)

    def take(self, body: bytes, _: str) -> Answer:
        self.bodies.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            role = values(resource.resource.attributes)["umbel.role"]
            self.spans += [
                Sent(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    values(span.attributes),
                    role,
                )
                for scope in resource.scope_spans
                for span in scope.spans
            ]
        self.answers.wait(60)
        return Answer(body=b"")

    def of(self, run_id: str) -> dict[str, Sent]:
        """Spans of a run by name, without the model's; of several of one name the last."""
        found = (span for span in self.spans if span.attributes["umbel.run_id"] == run_id)
        return {("chat" if span.name.startswith("chat ") else span.name): span for span in found}


def values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@dataclass(frozen=True, slots=True)
class Scene:
    """Workers that trace, and the collector they send to."""

    system: CaseSystem
    collector: Collector

    def carry(self, title: str, *, traceparent: str | None = None) -> tuple[RunId, float]:
        """A run with two reads and a change, all with planted words; its id, and its seconds."""
        turns = [reads("planted-c1", "c2"), asks(("c3", "send_mail")), text("planted-answer")]
        case = a_case(title, turns, input="planted-request", permission_mode="full_access")
        world = self.system.enter(case, ring=False)
        if traceparent:
            change(
                self.system.stage.database,
                "UPDATE run_specs SET traceparent = %(it)s WHERE run_id = %(id)s",
                it=traceparent,
                id=world.run_id,
            )
        began = time.monotonic()
        self.system.stage.ringer.ring_step(RunId(world.run_id), 1)
        record = follow(self.system, world)
        assert record.run["status"] == "completed"
        return RunId(world.run_id), time.monotonic() - began


@pytest.fixture(scope="module")
def scene(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    collector = Collector()
    collector.answers.set()
    tools = write_tools(tmp_path_factory.mktemp("tools"))
    with serving({"/v1/traces": collector.take}.get) as address:
        environment = {
            **PATIENT_CLOCKS,
            "UMBEL_TRACES": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": address,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        with case_system(services, [tools], Cast(environment=environment)) as system:
            yield Scene(system, collector)
        collector.answers.set()


NAMES: Final = {
    "chat",
    "invoke_agent default",
    "execute_tool read_note",
    "execute_tool send_mail",
}


def trace_of(scene: Scene, run_id: str) -> dict[str, Sent]:
    wait_until(lambda: scene.collector.of(run_id).keys() >= NAMES, SECONDS, "all spans came")
    return scene.collector.of(run_id)


def test_step_and_tool_workers_write_one_trace_with_one_root(scene: Scene) -> None:
    run_id, _ = scene.carry("alone")
    spans = trace_of(scene, run_id)
    root = spans.pop("invoke_agent default")
    assert root.parent == ""
    assert {span.trace for span in spans.values()} == {root.trace}
    assert {span.parent for span in spans.values()} == {root.id}
    assert spans["chat"].role == root.role
    assert spans["execute_tool send_mail"].role != root.role
    assert {span.trace for span in scene.collector.of(run_id).values()} == {root.trace}


def test_a_callers_span_is_the_parent_of_the_run(scene: Scene) -> None:
    run_id, _ = scene.carry("called", traceparent=CALLER)
    spans = trace_of(scene, run_id)
    _, trace, parent, _ = CALLER.split("-")
    assert {span.trace for span in spans.values()} == {trace}
    assert spans["invoke_agent default"].parent == parent


def test_nothing_that_was_written_is_sent(scene: Scene) -> None:
    run_id, _ = scene.carry("quiet")
    trace_of(scene, run_id)
    assert b"quiet" in b"".join(scene.collector.bodies), "the search finds what is there"
    assert b"planted" not in b"".join(scene.collector.bodies)


def test_a_collector_that_does_not_answer_costs_no_time_and_no_worker(scene: Scene) -> None:
    heard = min(scene.carry(f"heard{n}")[1] for n in range(3))
    scene.collector.answers.clear()
    scene.carry("stuck")  # whatever a batch could block is blocked from here on
    unheard = min(scene.carry(f"unheard{n}")[1] for n in range(3))
    assert unheard < 1.5 * heard + 0.3, (heard, unheard)
    print(f"seconds of a run: collector answers {heard:.3f}, is silent {unheard:.3f}")  # noqa: T201

    workers = scene.system.stage.workers
    for worker in (*workers.of_role("step"), *workers.of_role("tool")):
        workers._killed.add(worker.name)
        began = time.monotonic()
        os.kill(worker.pid, signal.SIGTERM)
        wait_until(worker.has_ended.is_set, 15, f"{worker.name} has ended")
        print(f"{worker.name} ended in {time.monotonic() - began:.2f} s")  # noqa: T201
