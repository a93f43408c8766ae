"""`umbel runs resume`: a paused, failed or cancelled run goes on where it stood."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from umbel.cli import exits
from umbel.cli.acting import REPEATED, acting
from umbel.errors import InvalidInput


def resume_command(
    run: str,
    data: Path | None,
    *,
    limits: Sequence[str],
    key: str | None,
    is_waiting: bool,
    is_json: bool,
) -> int:
    """Resume a run; 0 once it goes on, or is completed if it waits.

    Raises:
        Conflict, InvalidInput, NotFound, NotPermitted: it cannot go on; says what to do first.
        Unavailable: the record does not answer; repeat it with the same --key.
    """
    wanted = dict(_limit(limit) for limit in limits)
    with acting(data, is_json=is_json) as system:
        row, after = system.find(run)
        resumed = system.service.resume(row.run_id, limits=wanted, key=key)
        look = system.record.command(f"tail {row.run_id} --from {after}")
        lines = [("resumed", f"{row.run_id} goes on at step {row.step}")]
        if not resumed.is_new:
            lines.append(REPEATED)
        system.say("run.resumed", asdict(resumed) | {"look": look}, [*lines, ("look", look)])
        return system.follow(row, after) if is_waiting else exits.COMPLETED


def _limit(text: str) -> tuple[str, int | None]:
    """`NAME=NUMBER`, or `NAME=none`."""
    name, equals, value = text.partition("=")
    if equals and value == "none":
        return name, None
    if not equals or not value.isascii() or not value.isdigit():
        raise InvalidInput(
            f"--limit {text!r} is no limit; write NAME=NUMBER, such as tool_call_limit=40, or "
            "NAME=none."
        )
    return name, int(value)
