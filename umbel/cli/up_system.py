"""Puts the whole system together, keeps it running, and ends it in order."""

import logging
import os
import signal
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from providers.profiles import DEFAULT_BASE_URL
from tools.registry import load_registry
from umbel.cli.early_checks import check_given_servers
from umbel.cli.ending import Terminated, exit_code_of
from umbel.cli.endpoints import ChosenModel, chosen_model
from umbel.cli.places import prepare_database
from umbel.cli.running_system import (
    RunningSystem,
    announced,
    default_data_directory,
    was_killed,
)
from umbel.cli.supervision import RestartPolicy
from umbel.cli.supervisor import Child, Supervisor
from umbel.cli.up_demo import keep_port, kept_port
from umbel.cli.up_flower import FlowerAuth, flower_auth
from umbel.cli.up_happenings import (
    Addresses,
    Happening,
    ProcessLine,
    Progress,
    SystemFailed,
    SystemStopped,
    SystemStopping,
    Topic,
)
from umbel.cli.up_listening import answers, refuse_taken
from umbel.cli.up_log import BoundedLog
from umbel.cli.up_screen import UpScreen, Writer
from umbel.cli.worker_commands import system_specs
from umbel.cli.worker_health import says_ready
from umbel.embedded import EmbeddedServers, embedded_servers
from umbel.embedded.server_process import EmbeddedServer
from umbel.errors import UmbelError
from umbel.server_processes import EndedProcess, ProcessSpec, ServerProcesses
from umbel.settings import DEFAULT_AGENT, Settings
from umbel.settings_faults import without_password

_LOG: Final = "umbel.log"
_FOLDER: Final = "workers"
"""Where the processes start; private, and nothing that could be imported is in it."""
_STOP_SECONDS: Final = 20.0
_STOP_FIRST_SECONDS: Final = 5.0
_ORPHANS_SECONDS: Final = 20.0
"""As long as processes may outlive the one that started them."""
_AS_ROOT: Final = "workers and tools run as root; start `umbel up` as an ordinary user if you can"
_WITHOUT_WORK: Final = ("beat.1", "beat.2", "flower")
"""Ended first: nobody rings for new work while the workers hand theirs back."""
_LEVELS: Final = logging.getLevelNamesMapping()


class UpSystem:
    """One `umbel up`; `run` does it all and leaves nothing running."""

    def __init__(self, settings: Settings, data: Path | None, *, began: float) -> None:
        self._settings = settings
        self._data = (data or default_data_directory()).expanduser()
        self._is_default_data = data is None
        self._supervisor = Supervisor(self._show, began=began, policy=RestartPolicy())
        self._screen: UpScreen | None = None
        self._log: BoundedLog | None = None

    def run(self, writer: Writer) -> NoReturn:
        """Run the system until a signal or an error ends it.

        Raises:
            UmbelError: something cannot work, or a process does not start.
            KeyboardInterrupt: a signal; everything has ended.
        """
        self._screen = UpScreen(writer, on_closed=self._supervisor.fail)
        ending_since = time.monotonic()
        try:
            with ExitStack() as stack:
                try:
                    self._start(stack)
                    self._supervisor.supervise()
                except (UmbelError, KeyboardInterrupt) as error:
                    ending_since = time.monotonic()
                    self._tell_ending(error)
                    raise
        finally:
            if self._log is not None:  # else nothing was started
                self._show(SystemStopped(seconds=time.monotonic() - ending_since))
            self._screen.close()

    def _start(self, stack: ExitStack) -> None:
        settings = self._settings
        load_registry(settings.tools)
        check_given_servers(settings)
        self._refuse_taken_addresses()
        port = kept_port(self._data)
        model = stack.enter_context(chosen_model(settings, self._wanted_model(), demo_port=port))
        servers, started_at = self._servers(stack)
        keep_port(servers.directory, model)
        if os.geteuid() == 0:
            self._tell("note", _AS_ROOT)
        self._tell("model", model.why)
        self._tell("database", prepare_database(_database_url(settings, servers), settings))
        auth = flower_auth(settings, servers.directory)
        complete = _complete(settings, servers, model, auth)
        processes = stack.enter_context(
            ServerProcesses(
                on_line=self._take_line, on_end=self._supervisor.note_end, grace_seconds=0.0
            )
        )
        stack.callback(self._end, processes)
        stack.enter_context(announced(servers.directory, _note(complete, settings)))
        self._show(self._addresses(complete, servers.directory, auth))
        for server in servers.processes:
            child = self._child_of_server(server)
            self._supervisor.adopt(child, server.pid, started_at=started_at)
        folder = servers.directory / _FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        for spec in system_specs(complete, folder):
            self._supervisor.start(_child_of_spec(spec, processes, complete))

    def _wanted_model(self) -> str | None:
        return self._settings.agent(DEFAULT_AGENT).model or self._settings.model

    def _servers(self, stack: ExitStack) -> tuple[EmbeddedServers, float]:
        """The servers that are not given, in a directory that is ours in any case."""
        settings, started_at = self._settings, time.monotonic()
        for name, url in (("PostgreSQL", settings.database_url), ("Redis", settings.redis_url)):
            if url is not None:
                self._tell("servers", f"{name} is the one at {without_password(url)}")
        servers = stack.enter_context(
            embedded_servers(
                self._data,
                database=settings.database_url is None,
                redis=settings.redis_url is None,
                on_progress=partial(self._tell, "servers"),
            )
        )
        self._log = stack.enter_context(BoundedLog(servers.directory / _LOG))
        return servers, started_at

    def _refuse_taken_addresses(self) -> None:
        # What a killed system left may still be ending.
        patience = _ORPHANS_SECONDS if was_killed(self._data) else 0.0
        for name in ("flower_address", "metrics_address"):
            address: str | None = getattr(self._settings, name)
            if address is not None:
                refuse_taken(address, f"UMBEL_{name.upper()}", patience_seconds=patience)

    def _child_of_server(self, server: EmbeddedServer) -> Child:
        def watch() -> None:
            server.watch(lambda code: self._supervisor.note_end(EndedProcess(server.name, code)))

        def start() -> int:
            pid = server.restart()
            watch()
            return pid

        watch()
        return Child(server.name, start, server.is_ready)

    def _end(self, processes: ServerProcesses) -> None:
        """End the processes in order; the servers end after them."""
        deadline = time.monotonic() + _STOP_SECONDS
        processes.stop(_STOP_FIRST_SECONDS, names=_WITHOUT_WORK)
        processes.stop(deadline - time.monotonic())

    def _take_line(self, name: str, line: str) -> None:
        """Called by a thread of that process."""
        told = ProcessLine.of(name, line)
        self._supervisor.take_line(name, line)
        if told.log is not None and says_ready(told.log):
            self._supervisor.note_ready(name)
        least = _LEVELS[self._settings.log_level]
        if told.log is None or _LEVELS.get(told.log.level, least) >= least:
            self._show(told)

    def _tell(self, topic: Topic, text: str) -> None:
        self._show(Progress(topic=topic, text=text))

    def _tell_ending(self, error: BaseException) -> None:
        if self._log is None:  # nothing was started
            return
        if isinstance(error, UmbelError):
            failed = SystemFailed(message=str(error), exit_code=exit_code_of(error))
            self._log.write(failed)
            cause = "the system cannot go on"
        else:
            number = error.exit_code - 128 if isinstance(error, Terminated) else signal.SIGINT
            cause = signal.Signals(number).name
        order = "beats and Flower, then workers, then servers"
        self._show(SystemStopping(text=f"{cause}: {order}"))

    def _show(self, happening: Happening) -> None:
        """From any thread."""
        if self._log is not None:
            self._log.write(happening)
        if self._screen is not None:
            self._screen.show(happening)

    def _addresses(self, settings: Settings, data: Path, auth: FlowerAuth) -> Addresses:
        has_flower = settings.flower_address is not None
        return Addresses(
            data=str(data),
            is_default_data=self._is_default_data,
            log=str(data / _LOG),
            database_url=without_password(settings.database_url or ""),
            redis_url=without_password(settings.redis_url or ""),
            model=settings.model or "",
            model_base_url=without_password(settings.model_base_url or DEFAULT_BASE_URL),
            flower_url=f"http://{settings.flower_address}" if has_flower else None,
            flower_user=auth.user if has_flower else None,
            flower_password_file=str(auth.file) if has_flower and auth.file else None,
            flower_password=auth.password if has_flower and auth.file else None,
            metrics_url=_metrics_url(settings),
        )


def _child_of_spec(spec: ProcessSpec, processes: ServerProcesses, settings: Settings) -> Child:
    address = settings.flower_address
    is_ready = partial(answers, address) if spec.name == "flower" and address else None
    return Child(spec.name, partial(processes.start, spec), is_ready)


def _complete(
    settings: Settings, servers: EmbeddedServers, model: ChosenModel, auth: FlowerAuth
) -> Settings:
    """The settings with what was started, found and made.

    The processes log at INFO at least, which is how they say that they are ready, and as JSON,
    which is shown as text; what the settings do not want to see is left out here.
    """
    is_fine = _LEVELS[settings.log_level] <= logging.INFO
    return settings.model_copy(
        update={
            "database_url": _database_url(settings, servers),
            "redis_url": settings.redis_url or servers.redis_url,
            "model_base_url": model.base_url,
            "model": model.model,
            "api_key": model.api_key,
            "flower_auth": auth.together,
            "log_format": "json",
            "log_level": settings.log_level if is_fine else "INFO",
        }
    )


def _database_url(settings: Settings, servers: EmbeddedServers) -> str:
    return settings.database_url or servers.database_url


def _metrics_url(settings: Settings) -> str | None:
    address = settings.metrics_address
    return f"http://{address}/metrics" if address is not None else None


def _note(settings: Settings, given: Settings) -> RunningSystem:
    auth = settings.flower_auth
    return RunningSystem(
        pid=os.getpid(),
        database_url=settings.database_url or "",
        has_own_database=given.database_url is None,
        redis_url=settings.redis_url or "",
        has_own_redis=given.redis_url is None,
        redis_prefix=settings.redis_prefix,
        tenant=settings.tenant,
        model=settings.model,
        model_base_url=settings.model_base_url,
        metrics_address=settings.metrics_address,
        flower_address=settings.flower_address,
        flower_auth=auth.get_secret_value() if auth is not None else None,
    )
