"""How one run reads: its facts, its story, its answer; or step by step."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from models.runs import RunRow
from models.showing import ShownAttempt, ShownCall
from umbel.agent_settings import ModelSettings
from umbel.cli.moments import Happened, Moment
from umbel.cli.plain_output import PlainConsole
from umbel.cli.runs_table import holder_in_words, status_in_words
from umbel.cli.safe_text import one_line, safe
from umbel.cli.spending import (
    cost_in_words,
    purposes_in_words,
    spending_by_purpose,
    spending_of,
    tokens_in_words,
)
from umbel.cli.wording import (
    EVENT_TIME_WIDTH,
    Line,
    count,
    line_of,
    lines_of,
    span,
    what_to_do,
)


def print_run(
    row: RunRow, story: Sequence[Happened], attempts: Sequence[ShownAttempt], prices: ModelSettings
) -> None:
    """Everything about one run that a person asks first."""
    console = PlainConsole(sys.stdout)
    for label, value in _facts(row, attempts, prices):
        if value:
            _print_fact(console, label, value)
    console.print()
    _print_fact(console, "story", "what happened, in UTC and since the run was accepted")
    for happened in story:
        _print_line(console, line_of(happened))
    if row.answer is not None:
        console.print()
        console.print(Text(safe(row.answer)), soft_wrap=True)


def line_printer() -> Callable[[Moment], None]:
    """Prints the events of many runs, and remarks between them, one line each."""
    console = PlainConsole(sys.stdout)

    def show(moment: Moment) -> None:
        for line in lines_of(moment):
            run_id = f"{moment.run_id}  " if isinstance(moment, Happened) else ""
            _print_line(console, replace(line, text=run_id + line.text))

    return show


def print_steps(
    row: RunRow,
    attempts: Sequence[ShownAttempt],
    calls: Sequence[ShownCall],
    prices: ModelSettings,
) -> None:
    """Per step: what it cost, every model call, then every tool call."""
    console = PlainConsole(sys.stdout)
    _print_fact(console, "run", f"{row.run_id}  {status_in_words(row)}")
    for step in sorted({attempt.step for attempt in attempts}):
        of_step = [attempt for attempt in attempts if attempt.step == step]
        spending = spending_of(of_step, prices)
        cost = cost_in_words(spending, row.model)
        _print_fact(console, f"step {step}", f"tokens {tokens_in_words(spending)}; cost {cost}")
        if words := purposes_in_words(spending_by_purpose(of_step, prices)):
            _print_fact(console, "of that", words)
        for attempt in of_step:
            words = ", ".join(_attempt_words(attempt))
            purpose = "" if attempt.purpose == "main" else f" ({attempt.purpose})"
            _print_fact(console, "", f"model call {attempt.attempt}{purpose}: {words}")
        for call in (c for c in calls if c.step == step):
            _print_call(console, call)
    if attempts:
        spending = spending_of(attempts, prices)
        cost = cost_in_words(spending, row.model)
        _print_fact(console, "in all", f"tokens {tokens_in_words(spending)}; cost {cost}")
        if words := purposes_in_words(spending_by_purpose(attempts, prices)):
            _print_fact(console, "of that", words)


def _facts(
    row: RunRow, attempts: Sequence[ShownAttempt], prices: ModelSettings
) -> Iterator[tuple[str, str]]:
    spending = spending_of(attempts, prices)
    yield "run", row.run_id
    yield "thread", row.thread_id
    yield "status", status_in_words(row)
    yield "detail", row.detail or ""
    yield "to do", what_to_do(row.reason, row.detail, _address(attempts)) or ""
    yield "owner", f"{row.owner} of tenant {row.tenant}"
    yield "agent", f"{row.agent}, model {row.model}"
    yield "workspace", row.workspace or "none"
    yield "held by", holder_in_words(row) or "nobody"
    yield "accepted", f"{row.accepted_at:%Y-%m-%d %H:%M:%S %Z}"
    yield "settled", f"{row.settled_at:%Y-%m-%d %H:%M:%S %Z}" if row.settled_at else "not yet"
    yield (
        "used",
        ", ".join(
            (
                count(row.step, "step"),
                count(row.calls_used, "tool call"),
                count(len(attempts), "model call"),
            )
        ),
    )
    yield "tokens", tokens_in_words(spending)
    yield "cost", cost_in_words(spending, row.model)
    yield "of that", purposes_in_words(spending_by_purpose(attempts, prices)) or ""
    yield "request", row.input


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


def _print_line(console: Console, line: Line) -> None:
    time = f"{line.time or '':<{EVENT_TIME_WIDTH}}"
    words = Text.assemble((time, "dim"), f"{line.label:<11}", (line.text, line.style))
    console.print(words, soft_wrap=True)


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


def _address(attempts: Sequence[ShownAttempt]) -> str | None:
    """Host and port that the model was last asked at."""
    named = [attempt.endpoint for attempt in attempts if attempt.endpoint is not None]
    return named[-1].rpartition("@")[2] if named else None


def _number(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"
