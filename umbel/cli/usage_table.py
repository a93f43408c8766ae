"""How usage reads: a table on a terminal, plain columns in a pipe."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table
from rich.text import Text

from umbel.cli.plain_output import PlainConsole
from umbel.cli.runs_table import print_columns
from umbel.cli.safe_text import one_line
from umbel.cli.spending import Spending, amount_in_words

_NUMBERS: Final = ("model calls", "unknown", "tokens in", "tokens out", "cost")


@dataclass(frozen=True, slots=True)
class UsedLine:
    """What one group has used."""

    groups: Mapping[str, str]
    spending: Spending


def print_usage(groups: Sequence[str], lines: Sequence[UsedLine], total: Spending) -> None:
    """The table, with a line of all at its end."""
    console = PlainConsole(sys.stdout)
    if not lines:
        console.print("no model calls")
        return
    rows = [(*map(one_line, line.groups.values()), *_numbers(line.spending)) for line in lines]
    rows.append(("in all", *[""] * (len(groups) - 1), *_numbers(total)))
    columns = (*groups, *_NUMBERS)
    if not console.is_terminal:
        print_columns(console, [columns, *rows])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _numbers(spending: Spending) -> tuple[str, ...]:
    if spending.unreported_calls == spending.model_calls:
        tokens = ("unknown", "unknown")
    else:
        about = "about " if spending.is_estimated else ""
        tokens = (f"{about}{spending.input_tokens:,}", f"{about}{spending.output_tokens:,}")
    return (
        f"{spending.model_calls:,}",
        f"{spending.unreported_calls:,}",
        *tokens,
        amount_in_words(spending),
    )
