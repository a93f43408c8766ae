"""Shows moments as text: calm lines, and on a terminal what is going on below them."""

import time
from typing import IO, Final

from rich.console import Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from umbel.cli.moments import Moment, RunSettled
from umbel.cli.plain_output import PlainConsole
from umbel.cli.present import Present
from umbel.cli.safe_text import safe
from umbel.cli.wording import Line, lines_of

TIME_WIDTH: Final = 8
_LABEL_WIDTH: Final = 11
_QUIET_SECONDS: Final = 2.0
"""In a pipe, a reply that takes longer than this is shown line by line as it comes."""


class TextScreen:
    """Prints lines for good; on a terminal a small region below them shows the present."""

    def __init__(self, out: IO[str], *, began: float | None, time_width: int = TIME_WIDTH) -> None:
        """Write to `out`.

        Args:
            out: a terminal, or anything else.
            began: the `time.monotonic()` that times are counted from; None: only what says itself
                when it was has a time.
            time_width: columns for it.
        """
        self._console = PlainConsole(out)
        self._began = began
        self._time_width = time_width
        self._present = Present()
        self._last_print = time.monotonic()
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(console=self._console, transient=True, refresh_per_second=10)
            self._live.start()

    def show(self, moment: Moment) -> None:
        """Print what is final about a moment and update the present."""
        self._present.take(moment)
        if isinstance(moment, RunSettled) and moment.answer is not None:
            self._print_answer(moment.answer)
        for line in lines_of(moment):
            self._print(line)
        if self._live is not None:
            self._live.update(self._region())
        elif time.monotonic() - self._last_print > _QUIET_SECONDS:
            for text in self._present.pass_on_lines():
                self._print(Line("", f"| {text}"))

    def close(self) -> None:
        """Take the region away and leave the cursor on a fresh line."""
        if self._live is not None:
            self._live.update(Group())
            self._live.stop()

    def _region(self) -> Group:
        indent = self._time_width + _LABEL_WIDTH
        rows: list[Text | Spinner] = [
            Text(f"{' ' * indent}{row}", style="dim", no_wrap=True)
            for row in self._present.last_rows(max(20, self._console.width - indent))
        ]
        if self._present.doing:
            words = Text(f"{' ' * (indent - 2)}{self._present.doing}", style="dim", no_wrap=True)
            rows.append(Spinner("dots", text=words, style="dim"))
        return Group(*rows)

    def _print(self, line: Line) -> None:
        self._last_print = time.monotonic()
        cells = (
            Text(f"{self._time_of(line):<{self._time_width}}", style="dim"),
            Text(f"{line.label:<{_LABEL_WIDTH}}"),
            Text(line.text, style=line.style),
        )
        if not self._console.is_terminal:
            self._console.print(Text.assemble(*cells), soft_wrap=True)
        elif line.is_cut:
            self._console.print(Text.assemble(*cells), no_wrap=True, overflow="ellipsis")
        else:
            self._console.print(_in_columns(*cells, time_width=self._time_width))

    def _time_of(self, line: Line) -> str:
        if line.time is not None:
            return line.time
        if self._began is None or not line.label:
            return ""
        return f"{self._last_print - self._began:6.1f}s"

    def _print_answer(self, answer: str) -> None:
        text = Text(safe(answer).strip("\n"))
        self._console.print()
        self._console.print(text, soft_wrap=not self._console.is_terminal)
        self._console.print()


def _in_columns(time_cell: Text, label: Text, text: Text, *, time_width: int) -> Table:
    """The text wraps below itself, not below its label."""
    table = Table.grid(expand=True)
    table.add_column(width=time_width, no_wrap=True)
    table.add_column(width=_LABEL_WIDTH, no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_row(time_cell, label, text)
    return table
