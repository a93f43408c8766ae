"""`umbel runs steer`: a correction for a run that works, waits or is paused."""

from dataclasses import asdict
from pathlib import Path
from threading import Event as Pause
from typing import Final

from models.owner_reading import ShownSteer, steers_of
from umbel.cli import exits
from umbel.cli.acting import REPEATED, Acting, acting
from umbel.cli.request_text import request_text
from umbel.contracts import RunId
from umbel.errors import InvalidInput
from umbel.names import STEER_MODES, SteerMode

_LOOK_SECONDS: Final = 0.2
_BECAME: Final = {
    "applied": "the model has been asked with it",
    "deferred": "the run stands still, and hears it when it is resumed",
    "returned": "the run ended before the model was asked with it",
}


def steer_command(
    run: str,
    text: str,
    data: Path | None,
    *,
    mode: str,
    key: str | None,
    is_waiting: bool,
    is_json: bool,
) -> int:
    """Correct a run; 0 once it is accepted, or heard if it waits.

    Raises:
        Conflict, InvalidInput, NotFound, NotPermitted: it cannot be corrected; says what to do.
        Unavailable: the record does not answer; repeat it with the same --key.
    """
    words, how = request_text(text), _mode(mode)
    with acting(data, is_json=is_json) as system:
        row, _ = system.find(run)
        steered = system.service.steer(row.run_id, words, mode=how, key=key)
        look = system.record.command(f"tail {row.run_id}")
        lines = [("steered", f"{row.run_id} has {steered.steer_id}; its next request holds it")]
        if not steered.is_new:
            lines.append(REPEATED)
        system.say("run.steered", asdict(steered) | {"look": look}, [*lines, ("look", look)])
        if not is_waiting:
            return exits.COMPLETED
        became = _outcome(system, row.run_id, steered.steer_id)
        facts = {"run_id": row.run_id, "steer_id": became.steer_id, "state": became.state}
        system.say("steer.settled", facts, [(became.state, _BECAME[became.state])])
        return exits.COMPLETED if became.state == "applied" else exits.NOT_COMPLETED


def _mode(mode: str) -> SteerMode:
    for known in STEER_MODES:
        if mode == known:
            return known
    raise InvalidInput(f"--mode {mode!r} is none of {', '.join(STEER_MODES)}.")


def _outcome(system: Acting, run_id: RunId, steer_id: str) -> ShownSteer:
    pause = Pause()
    while True:
        found = steers_of(system.record.database, run_id)
        steer = next(steer for steer in found if steer.steer_id == steer_id)
        if steer.state != "accepted":
            return steer
        pause.wait(_LOOK_SECONDS)
