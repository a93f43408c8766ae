"""A running system for cases: database, broker, real workers, scripted world around them."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from locks.ownership import connect
from locks.wake_ups import WakeUps
from models.database import Database
from tasks.acceptance import AgentSpec, NewRequest, accept
from tasks.ringing import Ringer
from tests.broker import publisher
from tests.cases.actions import Stage
from tests.cases.case_file import Case
from tests.cases.commands import TENANT, Desk, source_of
from tests.cases.coordinator import FAULT_POINTS, Coordinator
from tests.cases.scripted_tools import tools_of
from tests.cases.support import model_settings_of, policy_of
from tests.cases.world import Perform, World
from tests.services import Services, fresh_place
from tests.worker_processes import FAST_CLOCKS, PATIENT_CLOCKS, Pool, WorkerProcesses
from tools.registry import ToolRegistry, load_registry
from umbel.contracts import Principal, RunId, ThreadId, new_id
from umbel.source_name import GivenSource


@dataclass(frozen=True, slots=True)
class CaseSystem:
    """Carries one case after the other; workers that a case killed have successors."""

    stage: Stage
    coordinator: Coordinator

    def enter(
        self,
        case: Case,
        *,
        builtin: Sequence[str] = (),
        workspace: Path | None = None,
        perform: Perform | None = None,
        ring: bool = True,
    ) -> World:
        """Accept a case's run, with everything around it in place.

        Args:
            case: what to run.
            builtin: the product's own tools that the model may call as well.
            workspace: the folder of the run.
            perform: does the events instead of the stage.
            ring: tell the workers; else they hear of it from the sweeper or from the caller.
        """
        world = World(case, perform or self.stage.perform)
        run_id = RunId(new_id("run"))
        self.coordinator.add(world, run_id)
        accept_case(self.stage.database, case, run_id, builtin=builtin, workspace=workspace)
        self.stage.desk.share(world)
        if ring:
            self.stage.ringer.ring_step(run_id, 1)
        return world


def accept_case(
    database: Database,
    case: Case,
    run_id: RunId,
    *,
    thread_id: ThreadId | None = None,
    builtin: Sequence[str] = (),
    workspace: Path | None = None,
) -> None:
    """Accept a case's run as a service would; the same id again is the same run."""
    tools = [*tools_of(case), *load_registry(()).select(builtin)]
    known = model_settings_of(case)
    agent = AgentSpec(
        tools=[tool.name for tool in tools],
        policy=policy_of(case),
        model_settings=lambda _model: known,
    )
    request = NewRequest(
        principal=Principal(tenant=TENANT, user=case.run.get("owner", "owner")),
        input=case.run["input"],
        model=case.model,
        run_id=run_id,
        thread_id=thread_id,
        workspace=None if workspace is None else str(workspace),
        sources=[
            GivenSource(source_of(given["id"]), given["author"], given["text"])
            for given in case.run.get("source_context", ())
        ],
    )
    accept(database, ToolRegistry(tools), agent, request)


@dataclass(frozen=True, slots=True)
class Cast:
    """Which processes a system starts with."""

    step_pool: Pool = "gevent"
    steps: int = 1
    tools: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of all of them, on top of those the cases ask for."""
    are_woken: bool = True
    """Whether streams hear of commands at once, and not when they next look at the record."""


@contextlib.contextmanager
def case_system(
    services: Services, cases: Sequence[Case], cast: Cast | None = None
) -> Iterator[CaseSystem]:
    """Workers whose tools are those of `cases`, ready for work.

    Args:
        services: where databases and Redis come from.
        cases: cases from files, whose tools do not contradict each other.
        cast: which workers; by default one of each kind.
    """
    cast = cast or Cast()
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(fresh_place(services))
        database = Database(place.database_url, role="cases", pool_size=20)
        stack.callback(database.close)
        coordinator = Coordinator(database)
        address = stack.enter_context(coordinator.listening())
        environment = {**_environment(address, cases), **cast.environment}
        workers = stack.enter_context(WorkerProcesses(place, environment))
        app = publisher(place)
        stack.callback(app.close)
        client = stack.enter_context(connect(place.redis_url, role="cases"))
        ringer = Ringer(app)
        heard_at = place.redis_prefix if cast.are_woken else f"{place.redis_prefix}:unheard"
        desk = Desk(database, ringer, WakeUps(client, prefix=heard_at))
        stage = Stage(database, workers, services.keys, place.redis_prefix, ringer, desk)
        workers.start_all(step_pool=cast.step_pool, steps=cast.steps, tools=cast.tools)
        yield CaseSystem(stage, coordinator)


def hurts_workers(case: Case) -> bool:
    """Whether the case needs the dead to be found soon."""
    return any(event["do"] in ("kill", "freeze") for event in case.events)


def silence_of_model(case: Case) -> float | None:
    """How long the case lets a model be silent; a setting of the worker, not of the run."""
    seconds = case.run.get("limits", {}).get("model_inactivity_seconds")
    return None if seconds is None else float(seconds)


def _environment(address: str, cases: Sequence[Case]) -> dict[str, str]:
    has_tools = any(case.tools for case in cases)
    clocks = FAST_CLOCKS if any(hurts_workers(case) for case in cases) else PATIENT_CLOCKS
    environment = {
        **clocks,
        "UMBEL_MODEL_BASE_URL": f"{address}/v1",
        "UMBEL_API_KEY": "scripted",
        "UMBEL_MODEL": "scripted",
        "UMBEL_TOOLS": "tests.cases.scripted_tools" if has_tools else "",
        "UMBEL_CASE_FILES": os.pathsep.join(str(case.path.resolve()) for case in cases),
        "UMBEL_CASE_COORDINATOR": address,
        "UMBEL_TEST_BUILD": "1",
        "UMBEL_FAULTS": ",".join(f"{point}:hook" for point in sorted(set(FAULT_POINTS.values()))),
        "UMBEL_FAULT_HOOK": "tests.cases.fault_hook:report",
    }
    silence = next((s for case in cases if (s := silence_of_model(case)) is not None), None)
    if silence is not None:
        for name in ("SILENCE", "FIRST_EVENT", "PROGRESS"):
            environment[f"UMBEL_STREAM_{name}_SECONDS"] = str(silence)
    return environment
