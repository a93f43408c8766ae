"""`umbel runs tail`: shows what happens, ends with the run, and says how to go on."""

import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from locks.live import LiveReader
from locks.ownership import connect
from models.runs import RunRow
from models.showing import attempts_of
from umbel.cli import exits, runs_text
from umbel.cli.json_screen import JsonScreen
from umbel.cli.moments import RunSettled
from umbel.cli.runs_follow import LiveText, RunTail
from umbel.cli.runs_follow_all import TenantTail
from umbel.cli.runs_patience import PatientReader
from umbel.cli.runs_reading import Record, open_record
from umbel.cli.spending import spending_of
from umbel.cli.story import telling
from umbel.cli.text_screen import TextScreen
from umbel.cli.wording import EVENT_TIME_WIDTH
from umbel.contracts import RunId
from umbel.errors import InvalidInput
from umbel.names import SETTLED_STATUSES

Screen = JsonScreen | TextScreen


def tail_command(
    run: str, data: Path | None, *, after: int, is_json: bool, is_following: bool
) -> int:
    """Show a run from the event behind `after` on; the exit code says how it ended.

    Raises:
        NotFound: there is no single such run.
    """
    with open_record(data) as record, screen_for(is_json=is_json) as screen:
        with record.reading() as connection:
            row = record.find(connection, run)
        return follow_run(record, row, screen, after=after, is_following=is_following)


def tail_all_command(data: Path | None, *, after: int, is_json: bool, is_following: bool) -> int:
    """Show what happens to any run from now on; ends only when it is interrupted.

    Raises:
        InvalidInput: an option that belongs to one run.
    """
    if after or not is_following:
        raise InvalidInput("--from and --no-follow belong to one run: `umbel runs tail RUN …`.")
    with open_record(data) as record:
        if record.tenant is None:
            raise InvalidInput(
                f"Nothing runs on {str(data)!r}; `umbel runs list --data` shows what it holds."
            )
        show = JsonScreen(sys.stdout).show if is_json else runs_text.line_printer()
        for moment in TenantTail(record, record.tenant).moments():
            show(moment)
    return exits.COMPLETED


def follow_run(
    record: Record, row: RunRow, screen: Screen, *, after: int, is_following: bool
) -> int:
    """Show a run until it stands still and return the exit code for its end."""
    with live_text(record, row.run_id) as live:
        tell = telling(record.settings.model_settings(row.model))
        reader = PatientReader(record)
        tail = RunTail(reader, live, row, tell, after=after, is_following=is_following)
        try:
            for moment in tail.moments():
                screen.show(moment)
        except KeyboardInterrupt as interrupt:
            again = record.command(f"tail {row.run_id} --from {tail.seq}")
            interrupt.args = (f"interrupted after event {tail.seq}; `{again}` goes on",)
            raise
    if tail.run.status not in SETTLED_STATUSES:
        return exits.COMPLETED
    screen.show(_settled(record, tail.run))
    return exits.COMPLETED if tail.run.status == "completed" else exits.NOT_COMPLETED


def _settled(record: Record, row: RunRow) -> RunSettled:
    reader = PatientReader(record)
    attempts = None
    while attempts is None:
        attempts = reader.ask(lambda connection: attempts_of(connection, row.run_id))
    named = [attempt.endpoint for attempt in attempts if attempt.endpoint is not None]
    seconds = (row.settled_at - row.accepted_at).total_seconds() if row.settled_at else 0.0
    return RunSettled(
        run_id=row.run_id,
        model=row.model,
        status=row.status,
        reason=row.reason,
        detail=row.detail,
        answer=row.answer,
        steps=row.step,
        calls=row.calls_used,
        spending=spending_of(attempts, record.settings.model_settings(row.model)),
        seconds=seconds,
        look=record.command(f"get {row.run_id}"),
        endpoint=named[-1].rpartition("@")[2] if named else None,
    )


@contextmanager
def live_text(record: Record, run_id: RunId) -> Generator[LiveText]:
    """What the model of a run is writing, for the block; nothing where there is no Redis."""
    url = record.settings.redis_url
    with ExitStack() as stack:
        reader = None
        if url is not None:
            client = stack.enter_context(connect(url, role="cli", max_connections=2))
            prefix = record.settings.redis_prefix
            reader = LiveReader(client, prefix=prefix, run_id=run_id)
        yield LiveText(reader)


@contextmanager
def screen_for(*, is_json: bool) -> Generator[Screen]:
    """Where moments are shown during the block."""
    screen: Screen
    if is_json:
        screen = JsonScreen(sys.stdout)
    else:
        screen = TextScreen(sys.stdout, began=None, time_width=EVENT_TIME_WIDTH)
    try:
        yield screen
    finally:
        screen.close()
