"""`umbel runs stop`: nothing of the run starts any more."""

from dataclasses import asdict
from pathlib import Path

from tasks.owner_verbs import RunStopped
from umbel.cli import exits
from umbel.cli.acting import REPEATED, Acting, Lines, acting


def stop_command(
    run: str, data: Path | None, *, key: str | None, is_waiting: bool, is_json: bool
) -> int:
    """Stop a run and say what is still draining; 0 once it is heard, or over if it waits.

    Raises:
        Conflict, InvalidInput, NotFound, NotPermitted: it cannot be stopped; says what to do.
        Unavailable: the record does not answer.
    """
    with acting(data, is_json=is_json) as system:
        row, after = system.find(run)
        stopped = system.service.stop(row.run_id, key=key)
        facts = asdict(stopped) | {"look": system.record.command(f"get {row.run_id}")}
        system.say("run.stopped", facts, _lines(system, stopped))
        if is_waiting and not stopped.is_over:
            system.follow(row, after)
            is_over = system.service.get(row.run_id).status == "cancelled"
            return exits.COMPLETED if is_over else exits.NOT_COMPLETED
    return exits.COMPLETED


def _lines(system: Acting, stopped: RunStopped) -> Lines:
    run_id = stopped.run_id
    words = "is cancelled" if stopped.is_over else "is stopped: nothing of it starts any more"
    lines = [("stopped", f"{run_id} {words}")]
    if not stopped.is_new:
        lines.append(REPEATED)
    if stopped.draining:
        lines.append(("draining", f"{', '.join(stopped.draining)} were started and are recorded"))
    elif not stopped.is_over:
        lines.append(("draining", "its model call, which is given up at once"))
    lines.append(("look", system.record.command(f"get {run_id}")))
    return lines
