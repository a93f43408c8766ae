"""`umbel runs create`: a request for the system that runs, through the same door as a service's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from models.database import Database
from models.diagnosis import known_workers
from models.runs import Accepted, RunRow
from umbel.cli import exits
from umbel.cli.moments import Progress, RunAccepted
from umbel.cli.places import refuse_outdated, required_database
from umbel.cli.request_text import request_text
from umbel.cli.running_system import settings_in_use
from umbel.cli.runs_reading import Record
from umbel.cli.runs_tail import Screen, follow_run, screen_for
from umbel.errors import Misconfigured, NotFound
from umbel.service import Service
from umbel.wanted import Wanted

_NO_WORKSPACE: Final = "none: file tools find no folder; --workspace DIR names one"
_NO_STEP_WORKER: Final = (
    "no step worker is alive, so that nobody carries the run out now; it is accepted all the same. "
    "Start the workers with `umbel up`, or as the Procfile names them"
)
_NO_TOOL_WORKER: Final = (
    "no tool worker is alive: calls of tools wait until one is. Start it as the Procfile names it"
)


@dataclass(frozen=True, slots=True)
class CreateOptions:
    """What the command line says."""

    request: str
    """`-`: standard input."""
    agent: str = "default"
    model: str | None = None
    workspace: Path | None = None
    thread: str | None = None
    run_id: str | None = None
    makes_thread: bool = False
    """A `thread` that stands for none yet makes one."""


def create_command(
    options: CreateOptions, data: Path | None, *, is_tailing: bool, is_json: bool
) -> int:
    """Accept the request; with `is_tailing`, show the run to its end, which is the exit code's.

    Raises:
        InvalidInput: the request cannot be stored as it is.
        IdReused: the id of --run-id stands for another request.
        NotFound: there is no thread of the id of --thread.
        Misconfigured: no system is named or found, or the agent, the model or the folder is wrong.
        Unavailable: PostgreSQL does not answer; repeated with the same --run-id, it is one run.
    """
    wanted = Wanted(
        request_text(options.request),
        agent=options.agent,
        model=options.model,
        workspace=_workspace(options.workspace),
        run_id=options.run_id,
        thread_id=options.thread,
        makes_thread=options.makes_thread or options.thread is None,
    )
    settings = settings_in_use(data)
    url = required_database(settings)
    refuse_outdated(url)
    with Service(settings) as service:
        accepted = _accepted(service, wanted)
        row = service.get(accepted.run_id)
    database = Database(url, role="cli", pool_size=2)
    record = Record(settings, database, settings.tenant, data)
    try:
        with screen_for(is_json=is_json) as screen:
            _show(record, accepted, row, screen)
            if not is_tailing:
                look = record.command(f"tail {row.run_id}")
                screen.show(Progress(topic="look", text=look))
                return exits.COMPLETED
            return follow_run(record, row, screen, after=0, is_following=True)
    finally:
        database.close()


def _accepted(service: Service, wanted: Wanted) -> Accepted:
    try:
        return service.accept(wanted)
    except NotFound as error:
        raise NotFound(
            f"{error} Without --thread the run gets a new one, with --new-thread besides it one of "
            "this id; `umbel runs list --json` shows the threads of runs."
        ) from error


def _workspace(folder: Path | None) -> str | None:
    if folder is None:
        return None
    whole = folder.expanduser().resolve()
    if not whole.is_dir():
        raise Misconfigured(
            f"The workspace {str(folder)!r} is not a folder here; name one that the workers see "
            "under the same path."
        )
    return str(whole)


def _show(record: Record, accepted: Accepted, row: RunRow, screen: Screen) -> None:
    screen.show(
        RunAccepted(
            run_id=row.run_id,
            thread_id=row.thread_id,
            agent=row.agent,
            model=row.model,
            input=row.input,
            workspace=row.workspace,
            is_new=accepted.is_new,
            is_queued=accepted.is_queued,
        )
    )
    screen.show(Progress(topic="workspace", text=row.workspace or _NO_WORKSPACE))
    if not accepted.is_new:
        screen.show(Progress(topic="note", text="this id was accepted before: it is the same run"))
    if accepted.is_queued:
        screen.show(Progress(topic="note", text="its thread is busy: it waits for its turn"))
    with record.reading() as connection:
        workers = known_workers(connection)
    dead_after = record.settings.dead_after_seconds
    roles = {worker.role for worker in workers if worker.silent_seconds < dead_after}
    for role, words in (("step", _NO_STEP_WORKER), ("tool", _NO_TOOL_WORKER)):
        if role not in roles:
            screen.show(Progress(topic="note", text=words))
