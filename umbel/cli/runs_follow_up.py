"""`umbel runs follow-up`: a further request in the thread of a run."""

from dataclasses import asdict
from pathlib import Path

from models.follow_ups import FollowedUp, HandedOver
from umbel.cli import exits
from umbel.cli.acting import REPEATED, Acting, acting
from umbel.cli.request_text import request_text
from umbel.errors import InvalidInput
from umbel.names import ON_BUSY, OnBusy


def follow_up_command(
    run: str,
    request: str,
    data: Path | None,
    *,
    on_busy: str,
    new_run_id: str | None,
    is_waiting: bool,
    is_json: bool,
) -> int:
    """Ask for more; 0 once it is accepted, or its run is completed if it waits.

    Raises:
        Conflict: the thread is busy and --on-busy is `reject`.
        InvalidInput, IdReused, NotFound, Misconfigured: it cannot be accepted; says why.
        Unavailable: the record does not answer; repeat it with the same --run-id.
    """
    words, wish = request_text(request), _on_busy(on_busy)
    with acting(data, is_json=is_json) as system:
        row, after = system.find(run)
        found = system.service.follow_up(row.run_id, words, on_busy=wish, new_run_id=new_run_id)
        if isinstance(found, HandedOver):
            _say_steered(system, found)
            heard, _ = system.find(found.run_id)
            begin = after if heard.run_id == row.run_id else 0
        else:
            _say_accepted(system, found)
            heard, begin = system.find(found.accepted.run_id)[0], 0
        return system.follow(heard, begin) if is_waiting else exits.COMPLETED


def _say_steered(system: Acting, found: HandedOver) -> None:
    look = system.record.command(f"tail {found.run_id}")
    facts = {"run_id": found.run_id, "steer_id": found.steered.steer_id, "look": look}
    lines = [("steered", f"{found.run_id} is at work: this is a correction of it"), ("look", look)]
    system.say("run.steered", facts, lines)


def _say_accepted(system: Acting, found: FollowedUp) -> None:
    accepted = found.accepted
    look = system.record.command(f"tail {accepted.run_id}")
    lines = [("run", f"{accepted.run_id} accepted in {accepted.thread_id}")]
    if not accepted.is_new:
        lines.append(REPEATED)
    if found.stopped is not None:
        lines.append(("stopped", f"{found.stopped} makes way for it"))
    if accepted.is_queued and not found.promoted:
        lines.append(("note", "its thread is busy: it waits for its turn"))
    facts = asdict(accepted) | {"stopped": found.stopped, "look": look}
    system.say("run.followed_up", facts, [*lines, ("look", look)])


def _on_busy(word: str) -> OnBusy:
    for known in ON_BUSY:
        if word == known:
            return known
    raise InvalidInput(f"--on-busy {word!r} is none of {', '.join(ON_BUSY)}.")
