"""`umbel runs get|steps`: reads the record of one run, changes nothing."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from sqlalchemy import Connection

from models.happenings import read_happenings
from models.owner_reading import steers_of
from models.runs import RunRow
from models.showing import ShownAttempt, attempts_of, calls_of
from umbel.agent_settings import ModelSettings
from umbel.cli import exits, runs_text
from umbel.cli.json_lines import write_json
from umbel.cli.moments import Happened
from umbel.cli.runs_reading import open_record
from umbel.cli.spending import spending_by_purpose, spending_of
from umbel.cli.story import tell


def get_command(run: str, data: Path | None, *, is_json: bool) -> int:
    """Show one run with its story."""
    with open_record(data) as record, record.reading() as connection:
        row = record.find(connection, run)
        prices = record.settings.model_settings(row.model)
        attempts = attempts_of(connection, row.run_id)
        story = _story_of(connection, row, prices)
        calls = calls_of(connection, row.run_id) if is_json else []
        corrections = steers_of(record.database, row.run_id) if is_json else []
    if not is_json:
        runs_text.print_run(row, story, attempts, prices)
        return exits.COMPLETED
    facts = asdict(row) | {
        **_spent(attempts, prices),
        "steps": _spending_by_step(attempts, prices),
        "calls_made": [asdict(call) for call in calls],
        "corrections": [asdict(correction) for correction in corrections],
        "story": [asdict(happened) for happened in story],
    }
    write_json(sys.stdout, facts)
    return exits.COMPLETED


def steps_command(run: str, data: Path | None, *, is_json: bool) -> int:
    """Show every step of one run."""
    with open_record(data) as record, record.reading() as connection:
        row = record.find(connection, run)
        prices = record.settings.model_settings(row.model)
        calls = calls_of(connection, row.run_id)
        attempts = attempts_of(connection, row.run_id)
    if not is_json:
        runs_text.print_steps(row, attempts, calls, prices)
        return exits.COMPLETED
    for step in sorted({attempt.step for attempt in attempts}):
        of_step = [attempt for attempt in attempts if attempt.step == step]
        facts = {
            "run_id": row.run_id,
            "step": step,
            **_spent(of_step, prices),
            "attempts": [asdict(a) | {"seconds": a.seconds} for a in of_step],
            "calls": [asdict(c) | {"seconds": c.seconds} for c in calls if c.step == step],
        }
        write_json(sys.stdout, facts)
    return exits.COMPLETED


def _story_of(connection: Connection, row: RunRow, prices: ModelSettings) -> list[Happened]:
    story: list[Happened] = []
    while found := read_happenings(connection, row.run_id, story[-1].seq if story else 0):
        story += [tell(row, happening, prices) for happening in found]
    return story


def _spent(attempts: Sequence[ShownAttempt], prices: ModelSettings) -> dict[str, object]:
    """What attempts have used, in all and for each purpose."""
    by_purpose = spending_by_purpose(attempts, prices)
    return {
        "spending": asdict(spending_of(attempts, prices)),
        "purposes": {purpose: asdict(part) for purpose, part in by_purpose.items()},
    }


def _spending_by_step(
    attempts: Sequence[ShownAttempt], prices: ModelSettings
) -> list[dict[str, object]]:
    steps = sorted({attempt.step for attempt in attempts})
    return [
        {"step": step, **_spent(of_step, prices)}
        for step in steps
        if (of_step := [attempt for attempt in attempts if attempt.step == step])
    ]
