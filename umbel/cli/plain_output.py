"""Output that may end before we do: `umbel runs list | head` is no fault."""

import os
import signal
import sys
from typing import IO, NoReturn

from rich.console import Console

from umbel.cli.ending import Terminated


class OutputClosed(Terminated):
    """Nobody reads our output any more: end as SIGPIPE would, in order and without a word."""

    def __init__(self) -> None:
        super().__init__(signal.SIGPIPE)


def output_closed() -> NoReturn:
    """Raise OutputClosed; what is written from now on goes nowhere."""
    # The interpreter writes what is still buffered at its end, and would complain.
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
    raise OutputClosed


class PlainConsole(Console):
    """A console that shows text as it is given."""

    def __init__(self, out: IO[str]) -> None:
        super().__init__(file=out, highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Say so in our own way; the library would exit with code 1 at once."""
        output_closed()
