"""How many runs read: a table on a terminal, plain columns in a pipe."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from models.runs import RunRow
from umbel.cli.plain_output import PlainConsole
from umbel.cli.safe_text import one_line

_COLUMNS: Final = ("run", "status", "agent", "step", "held by", "age", "request")
_PIPE_REQUEST_CHARS: Final = 60
_STATUS_STYLES: Final = {"completed": "green", "paused": "yellow", "failed": "red"}
_NEXT: Final = {"ready": "waiting for a worker", "calls": "its tool calls"}
"""Who goes on with a running run that nobody holds, by its `work`."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run of the list, with what does not stand in its row."""

    row: RunRow
    age: float
    """Seconds since it was accepted."""
    lock: str | None
    """Token of the lock in Redis; None: not locked, or Redis was not asked."""


def print_list(runs: Sequence[ListedRun]) -> None:
    """The table of runs."""
    console = PlainConsole(sys.stdout)
    if not runs:
        console.print("no runs")
        return
    rows = [_cells(run) for run in runs]
    if not console.is_terminal:
        print_columns(console, [_COLUMNS, *rows])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in _COLUMNS:
        table.add_column(
            name, no_wrap=True, overflow="ellipsis", ratio=1 if name == "request" else None
        )
    for run, cells in zip(runs, rows, strict=True):
        style = _STATUS_STYLES.get(run.row.status, "")
        table.add_row(*(Text(c, style=style if i == 1 else "") for i, c in enumerate(cells)))
    console.print(table)


def status_in_words(row: RunRow) -> str:
    """The status, with its reason where it has one."""
    return row.status if row.reason is None else f"{row.status}: {row.reason}"


def holder_in_words(row: RunRow) -> str | None:
    """Who works on it by the record, or what it waits for; None: nobody has to."""
    if row.holder is not None:
        return one_line(row.holder)
    return _NEXT.get(row.work) if row.status == "running" else None


def _cells(run: ListedRun) -> tuple[str, ...]:
    row = run.row
    return (
        row.run_id,
        status_in_words(row),
        one_line(row.agent),
        str(row.step),
        _held_by(run),
        _age(run.age),
        one_line(row.input, _PIPE_REQUEST_CHARS),
    )


def _held_by(run: ListedRun) -> str:
    """The database decides; a lock in Redis is only mentioned where it says something else."""
    if run.row.holder is None and run.lock:
        return f"lock {run.lock.split()[0]}"
    return holder_in_words(run.row) or "-"


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f}{unit}"
    return f"{seconds:.0f}s"


def print_columns(console: Console, rows: Sequence[Sequence[str]]) -> None:
    """Rows below each other, for who reads them from a pipe."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        console.print(Text("  ".join(cells).rstrip()), soft_wrap=True)
