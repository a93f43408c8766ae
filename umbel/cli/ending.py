"""How every command ends: with an exit code, and one clear line where something is wrong."""

import functools
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final, ParamSpec

import typer

from umbel.cli import exits
from umbel.errors import Rejected, UmbelError, Unavailable

Parameters = ParamSpec("Parameters")

_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: unwinds like Ctrl-C, so that nothing stays behind."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number
        self.is_silent = number == signal.SIGPIPE
        """Nobody is there to be told."""


def ends_with_code(command: Callable[Parameters, int]) -> Callable[Parameters, None]:
    """A command that exits with the code it returns, or with the one of its error."""

    @functools.wraps(command)
    def ending(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        for number in _ENDING_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, _terminate)
        try:
            code = command(*args, **kwargs)
        except (UmbelError, KeyboardInterrupt) as error:
            if not is_silent(error):
                say(str(error) or "interrupted")
            code = exit_code_of(error)
        raise typer.Exit(code)

    return ending


def is_silent(error: BaseException) -> bool:
    """The command ends because nobody reads what it says."""
    return isinstance(error, Terminated) and error.is_silent


def exit_code_of(error: BaseException) -> int:
    """The exit code that stands for an error."""
    match error:
        case Terminated():
            return error.exit_code
        case KeyboardInterrupt():
            return exits.INTERRUPTED
        case Rejected():
            return exits.USAGE
        case Unavailable():
            return exits.UNAVAILABLE
        case _:
            return exits.NOT_COMPLETED


def say(message: str) -> None:
    """One message on stderr, under our name."""
    sys.stderr.write(f"umbel: {message}\n")


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise Terminated(number)
