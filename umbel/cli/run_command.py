"""`umbel run`: one request, carried through the real system by real worker processes."""

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from models.database import Database
from models.runs import Accepted, find_run
from models.showing import attempts_of
from tasks.acceptance import NewRequest, accept, configured_agent
from tools.registry import ToolRegistry
from umbel.cli import exits
from umbel.cli.early_checks import check_given_servers, checked_tools
from umbel.cli.ending import importing, raise_if_interrupted
from umbel.cli.endpoints import ChosenModel, chosen_model
from umbel.cli.moments import Moment, Progress, RunAccepted, RunSettled, Topic
from umbel.cli.places import Place, prepare_database, running_servers
from umbel.cli.run_story import RunStory
from umbel.cli.runs_follow import RunTail
from umbel.cli.runs_patience import WatchfulReader
from umbel.cli.runs_reading import Record
from umbel.cli.runs_tail import live_text
from umbel.cli.spending import spending_of
from umbel.cli.worker_commands import process_specs
from umbel.cli.worker_health import WorkerHealth
from umbel.contracts import Principal, RunId
from umbel.errors import InvariantBroken, Misconfigured
from umbel.server_processes import ServerProcesses
from umbel.settings import Settings
from umbel.settings_faults import without_password

_STOP_SECONDS: Final = 20.0
_STOP_ALONE_SECONDS: Final = 3.0
"""On servers of our own the workers carry nothing but this run, which stands still by then."""

_FEWEST_TOOL_PROCESSES: Final = 4


class Screen(Protocol):
    """Where moments are shown."""

    def show(self, moment: Moment) -> None:
        """Show one moment at once."""
        ...


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line says."""

    request: str
    agent: str
    model: str | None
    workspace: Path
    keep: bool
    began: float
    """The `time.monotonic()` that the run's length is counted from."""


class RunCommand:
    """One `umbel run`; `carry_out` does it all and leaves nothing running."""

    def __init__(self, settings: Settings, options: RunOptions, screen: Screen) -> None:
        self._settings = settings
        self._options = options
        self._screen = screen
        self.accepted: Accepted | None = None
        """Set once the request is written down."""
        self.place: Place | None = None
        """Set once the servers run."""

    def carry_out(self) -> int:
        """Carry the request through and return the exit code.

        Raises:
            UmbelError: something on the way cannot work or does not answer.
        """
        registry = checked_tools(
            self._settings, agent=self._options.agent, request=self._options.request
        )
        workspace = self._workspace()
        check_given_servers(self._settings)
        agent = self._settings.agent(self._options.agent)
        wanted = self._options.model or agent.model or self._settings.model
        with ExitStack() as stack:
            model = stack.enter_context(chosen_model(self._settings, wanted))
            self._tell("model", model.why)
            try:
                return self._on_servers(stack, workspace, model, registry)
            finally:
                if self.place is not None:
                    alone = self.place.is_alone
                    self._tell("stopping", "workers and servers" if alone else "workers")

    def _on_servers(
        self, stack: ExitStack, workspace: Path, model: ChosenModel, registry: ToolRegistry
    ) -> int:
        place = stack.enter_context(
            running_servers(
                self._settings, keep=self._options.keep, tell=lambda x: self._tell("servers", x)
            )
        )
        self.place = place
        self._tell("database", prepare_database(place.database_url, self._settings))
        settings = _settings_of_workers(self._settings, place, model)
        database = Database(place.database_url, role="cli", pool_size=2)
        stack.callback(database.close)
        accepted = self._accept(database, settings, registry, workspace)
        health = self._start_workers(stack, settings, place)
        ring(settings, accepted.run_id)
        self._follow(database, settings, accepted.run_id, health)
        return self._report(database, settings, accepted.run_id)

    def _tell(self, topic: Topic, text: str) -> None:
        self._screen.show(Progress(topic=topic, text=text))

    def _workspace(self) -> Path:
        folder = self._options.workspace.expanduser().resolve()
        if not folder.is_dir():
            raise Misconfigured(
                f"The workspace {str(self._options.workspace)!r} is not a folder; name one with "
                "--workspace DIR."
            )
        rights = "full access inside it, none outside"
        agent = self._settings.agent(self._options.agent)
        if "permission" in agent.model_fields_set and agent.permission != "full_access":
            rights += (
                f"; this agent's own permission {agent.permission!r} does not apply to umbel run"
            )
        self._tell("workspace", f"{folder} ({rights})")
        return folder

    def _accept(
        self, database: Database, settings: Settings, registry: ToolRegistry, workspace: Path
    ) -> Accepted:
        # The person at the terminal is the owner and has named the folder.
        spec = configured_agent(settings, self._options.agent, permission_mode="full_access")
        model = settings.model or ""  # the chosen one: `_settings_of_workers` put it there
        agent = replace(spec, model=model)
        request = NewRequest(
            principal=Principal(tenant=settings.tenant, user=settings.user),
            input=self._options.request,
            model=model,
            workspace=str(workspace),
        )
        accepted = accept(database, registry, agent, request)
        self.accepted = accepted
        self._screen.show(
            RunAccepted(
                run_id=accepted.run_id,
                thread_id=accepted.thread_id,
                agent=agent.name,
                model=model,
                input=request.input,
                workspace=request.workspace,
            )
        )
        return accepted

    def _start_workers(self, stack: ExitStack, settings: Settings, place: Place) -> WorkerHealth:
        health = WorkerHealth()
        processes = stack.enter_context(
            ServerProcesses(
                log_path=place.log,
                on_line=health.take_line,
                on_end=health.note_end,
                grace_seconds=_STOP_ALONE_SECONDS if place.is_alone else _STOP_SECONDS,
            )
        )
        specs = process_specs(settings, place.log.parent)
        for spec in specs:
            processes.start(spec)
        self._tell("workers", f"starting {', '.join(spec.name for spec in specs)}")
        return health

    def _follow(
        self, database: Database, settings: Settings, run_id: RunId, health: WorkerHealth
    ) -> None:
        record = Record(settings, database, settings.tenant, None)
        reader = WatchfulReader(record, lambda: self._watch(health))
        run = reader.ask(lambda connection: record.find(connection, run_id))
        with live_text(record, run_id) as live:
            for moment in RunTail(reader, live, run, RunStory().tell).moments():
                self._screen.show(moment)

    def _watch(self, health: WorkerHealth) -> None:
        raise_if_interrupted()
        for name in health.newly_ready():
            self._tell("workers", f"{name} is ready")
        for remark in health.remarks():
            self._tell("note", remark)
        health.check()

    def _report(self, database: Database, settings: Settings, run_id: RunId) -> int:
        with database.begin() as connection:
            run = find_run(connection, run_id)
            attempts = attempts_of(connection, run_id)
        if run is None:
            raise InvariantBroken(f"The run {run_id!r} is gone.")
        settled = RunSettled(
            run_id=run_id,
            model=run.model,
            status=run.status,
            reason=run.reason,
            detail=run.detail,
            answer=run.answer,
            steps=run.step,
            calls=run.calls_used,
            spending=spending_of(attempts, settings.model_settings(run.model)),
            seconds=time.monotonic() - self._options.began,
            look=self.how_to_look(),
            endpoint=without_password(settings.model_base_url or "") or None,
        )
        self._screen.show(settled)
        return exits.COMPLETED if run.status == "completed" else exits.NOT_COMPLETED

    def how_to_look(self) -> str:
        """Where the run can be seen from now on, in words."""
        if self.accepted is None or self.place is None:
            return "nothing was accepted"
        if self.place.kept is not None:
            return f"umbel runs get {self.accepted.run_id} --data {self.place.kept}"
        if self._settings.database_url is not None:
            return f"umbel runs get {self.accepted.run_id}"
        return "nothing is kept; with --keep you could look at it later"


def ring(settings: Settings, run_id: RunId) -> None:
    """Announce the run's first step to the workers; a lost announcement only costs seconds."""
    # Not at the top: half a second of imports, while the workers are starting anyway.
    with importing():
        from tasks.app import make_app
        from tasks.ringing import Ringer

        app = make_app(settings)
    Ringer(app).ring_step(run_id, 1)
    app.close()


def _settings_of_workers(settings: Settings, place: Place, model: ChosenModel) -> Settings:
    """The settings with what was started and found; fewer tool processes, for there is one run."""
    tools = settings.tool_concurrency
    if "tool_concurrency" not in settings.model_fields_set:
        tools = min(tools, max(_FEWEST_TOOL_PROCESSES, os.cpu_count() or 1))
    return settings.model_copy(
        update={
            "tool_concurrency": tools,
            "log_format": "json",  # this command reads it
            "database_url": place.database_url,
            "redis_url": place.redis_url,
            "model_base_url": model.base_url,
            "model": model.model,
            "api_key": model.api_key,
        }
    )
