"""How runs read: a table of many, a page of one. Plain text in a pipe."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from models.runs import RunRow
from models.showing import ShownAttempt, ShownCall
from umbel.agent_settings import ModelSettings
from umbel.cli.plain_output import PlainConsole
from umbel.cli.safe_text import one_line, safe
from umbel.cli.spending import cost_in_words, spending_of, tokens_in_words
from umbel.cli.wording import span, what_to_do

_COLUMNS: Final = ("run", "status", "agent", "step", "held by", "age", "request")
_PIPE_REQUEST_CHARS: Final = 60
_WAITING: Final = "waiting for a worker"
_STATUS_STYLES: Final = {"completed": "green", "paused": "yellow", "failed": "red"}


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
    console = _console()
    if not runs:
        console.print("no runs")
        return
    rows = [_cells(run) for run in runs]
    if not console.is_terminal:
        _print_columns(console, [_COLUMNS, *rows])
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


def print_run(
    row: RunRow, calls: Sequence[ShownCall], attempts: Sequence[ShownAttempt], prices: ModelSettings
) -> None:
    """Everything about one run that a person asks first."""
    console = _console()
    spending = spending_of(attempts, prices)
    facts = [
        ("run", row.run_id),
        ("thread", row.thread_id),
        ("status", _status(row)),
        ("detail", row.detail or ""),
        ("to do", what_to_do(row.reason, row.detail, _address(attempts)) or ""),
        ("owner", f"{row.owner} of tenant {row.tenant}"),
        ("agent", f"{row.agent}, model {row.model}"),
        ("workspace", row.workspace or "none"),
        ("held by", row.holder or (_WAITING if _waits(row) else "nobody")),
        ("accepted", f"{row.accepted_at:%Y-%m-%d %H:%M:%S %Z}"),
        ("settled", f"{row.settled_at:%Y-%m-%d %H:%M:%S %Z}" if row.settled_at else "not yet"),
        ("used", f"{row.step} steps, {row.calls_used} tool calls, {len(attempts)} model calls"),
        ("tokens", tokens_in_words(spending)),
        ("cost", cost_in_words(spending, row.model)),
        ("request", row.input),
    ]
    for label, value in facts:
        if value:
            _print_fact(console, label, value)
    for call in calls:
        _print_call(console, call)
    if row.answer is not None:
        console.print()
        console.print(Text(safe(row.answer)), soft_wrap=True)


def print_steps(row: RunRow, attempts: Sequence[ShownAttempt], calls: Sequence[ShownCall]) -> None:
    """Per step: every model call, then every tool call."""
    console = _console()
    _print_fact(console, "run", f"{row.run_id}  {_status(row)}")
    for step in sorted({attempt.step for attempt in attempts}):
        for attempt in (a for a in attempts if a.step == step):
            words = ", ".join(_attempt_words(attempt))
            _print_fact(console, f"step {step}", f"model call {attempt.attempt}: {words}")
        for call in (c for c in calls if c.step == step):
            _print_call(console, call)


def _attempt_words(attempt: ShownAttempt) -> Iterator[str]:
    yield attempt.decision or ("no decision" if attempt.state == "closed" else attempt.state)
    if attempt.error_class is not None:
        yield attempt.error_class
    if attempt.input_tokens is None and attempt.output_tokens is None:
        yield "tokens unknown"
    else:
        yield f"{_number(attempt.input_tokens)} in, {_number(attempt.output_tokens)} out"
    if attempt.seconds is not None:
        yield span(attempt.seconds)
    if attempt.model is not None:
        yield attempt.model


def _print_call(console: Console, call: ShownCall) -> None:
    facts = [call.effect, call.state, f"attempt {call.attempt}"]
    if call.receipt is not None:
        facts.append(f"receipt {call.receipt}{', late' if call.is_late else ''}")
    if call.seconds is not None:
        facts.append(span(call.seconds))
    if call.result_chars is not None:
        facts.append(f"{call.result_chars:,} characters")
    label = f"call {call.step}.{call.position}"
    _print_fact(console, label, f"{call.tool} {call.args_text or '(arguments unusable)'}")
    _print_fact(console, "", f"{call.call_id}  {', '.join(facts)}")
    if call.view:
        _print_fact(console, "", one_line(call.view, 200))


def _print_fact(console: Console, label: str, value: str) -> None:
    first, *rest = safe(value).split("\n")
    console.print(Text.assemble((f"{label:<11}", "bold"), first), soft_wrap=True)
    for line in rest:
        console.print(Text(f"{'':<11}{line}"), soft_wrap=True)


def _cells(run: ListedRun) -> tuple[str, ...]:
    row = run.row
    return (
        row.run_id,
        _status(row),
        one_line(row.agent),
        str(row.step),
        _held_by(run),
        _age(run.age),
        one_line(row.input, _PIPE_REQUEST_CHARS),
    )


def _held_by(run: ListedRun) -> str:
    """The database decides; a lock in Redis is only mentioned where it says something else."""
    if run.row.holder is not None:
        return one_line(run.row.holder)
    if run.lock:
        return f"lock {run.lock.split()[0]}"
    return _WAITING if _waits(run.row) else "-"


def _waits(row: RunRow) -> bool:
    """Any worker could go on with it, and none has taken it yet."""
    return row.status == "running" and row.work == "ready" and row.holder is None


def _address(attempts: Sequence[ShownAttempt]) -> str | None:
    """Host and port that the model was last asked at."""
    named = [attempt.endpoint for attempt in attempts if attempt.endpoint is not None]
    return named[-1].rpartition("@")[2] if named else None


def _status(row: RunRow) -> str:
    return row.status if row.reason is None else f"{row.status}: {row.reason}"


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f}{unit}"
    return f"{seconds:.0f}s"


def _number(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"


def _print_columns(console: Console, rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        console.print(Text("  ".join(cells).rstrip()), soft_wrap=True)


def _console() -> Console:
    return PlainConsole(sys.stdout)
