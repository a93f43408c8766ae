"""Shows what `umbel up` tells: text with a colour per process, or JSON lines.

One thread writes. Whoever tells something never waits for the terminal: a worker must not stand
still because somebody has stopped the output with Ctrl-S.
"""

import queue
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import IO, Final, Protocol

from rich.text import Text

from umbel.cli.json_lines import write_json
from umbel.cli.plain_output import OutputClosed, PlainConsole, output_closed
from umbel.cli.up_happenings import Happening
from umbel.cli.up_wording import NAME_WIDTH, lines_of, teller_of
from umbel.safe_text import one_line

_MOST_WAITING: Final = 10_000
_CLOSE_SECONDS: Final = 2.0
_CLOCK: Final = slice(11, 19)
"""Hours, minutes and seconds of an ISO time."""
_COLOURS: Final = {
    "step": "cyan",
    "tool": "green",
    "control": "yellow",
    "beat.1": "magenta",
    "beat.2": "bright_magenta",
    "flower": "blue",
    "postgres": "bright_blue",
    "valkey": "bright_red",
}


class Writer(Protocol):
    """Puts one happening on the output."""

    def write(self, happening: Happening) -> None:
        """Write it; raises OutputClosed once nobody reads."""
        ...


class JsonWriter:
    """One object a line."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def write(self, happening: Happening) -> None:
        """Write it as one line."""
        write_json(self._out, as_facts(happening))


class TextWriter:
    """A line, or a few, under the name of the process."""

    def __init__(self, out: IO[str]) -> None:
        self._console = PlainConsole(out)

    def write(self, happening: Happening) -> None:
        """Write its lines."""
        name, clock = teller_of(happening), one_line(happening.at)[_CLOCK]
        label = Text(f"{name:<{NAME_WIDTH}}| ", style=_COLOURS.get(name, "bold"))
        for line in lines_of(happening):
            self._console.print(label + Text(f"{clock}  {line}"), soft_wrap=True)


class UpScreen:
    """Takes happenings from any thread; `close` writes what is left.

    Args:
        writer: how they are shown.
        on_closed: called once, from the writing thread, when nobody reads the output any more.
    """

    def __init__(self, writer: Writer, *, on_closed: Callable[[OutputClosed], None]) -> None:
        self._writer = writer
        self._on_closed = on_closed
        self._waiting: queue.Queue[Happening | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._write_all, name="umbel-screen", daemon=True)
        self._thread.start()

    def show(self, happening: Happening) -> None:
        """Write it soon; while the output is blocked, the newest are left out (see the log)."""
        try:
            self._waiting.put_nowait(happening)
        except queue.Full:
            return

    def close(self) -> None:
        """Return when everything is written, or two seconds later."""
        try:
            self._waiting.put(None, timeout=_CLOSE_SECONDS)
        except queue.Full:
            return
        self._thread.join(_CLOSE_SECONDS)

    def _write_all(self) -> None:
        is_open = True
        while (happening := self._waiting.get()) is not None:
            if not is_open:
                continue
            try:
                self._write(happening)
            except OutputClosed as error:
                is_open = False
                self._on_closed(error)

    def _write(self, happening: Happening) -> None:
        try:
            self._writer.write(happening)
        except OSError:  # a terminal that is gone is no broken pipe
            output_closed()


def as_facts(happening: Happening) -> dict[str, object]:
    """The happening as a JSON object; passwords are for people alone."""
    facts: dict[str, object] = {"type": happening.type, **asdict(happening)}
    facts.pop("flower_password", None)
    return facts
