"""How every command ends: with an exit code, and one clear line where something is wrong."""

import functools
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Final, ParamSpec

import typer

from umbel.cli import exits
from umbel.errors import Rejected, UmbelError, Unavailable

Parameters = ParamSpec("Parameters")

_ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: unwinds like Ctrl-C, so that nothing stays behind."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number
        self.is_silent = number == signal.SIGPIPE
        """Nobody is there to be told."""


class _Interrupts:
    """What signals asked for, where an exception cannot be relied on to arrive."""

    def __init__(self) -> None:
        self._are_held = False
        self._asked: KeyboardInterrupt | None = None

    def listen(self) -> None:
        """Take the signals that end a command, from now on."""
        self._asked = None
        for number in _ENDING_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, self.take)

    def take(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        self._asked = KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)
        if not self._are_held:
            raise self._asked

    @contextmanager
    def held(self) -> Generator[None]:
        """Raise what is asked for meanwhile, or was lost before, at the end of the block."""
        self._are_held = True
        try:
            yield
        finally:
            self._are_held = False
        self.raise_asked()

    def raise_asked(self) -> None:
        if self._asked is not None:
            raise self._asked


_interrupts: Final = _Interrupts()


def importing() -> AbstractContextManager[None]:
    """Around heavy imports: an interrupt is raised after them.

    In the middle of an import Python may lose it (callbacks of import locks print an exception and
    go on) or end the process by the signal although it was handled (exec() of a dataclass).
    """
    return _interrupts.held()


def raise_if_interrupted() -> None:
    """Raise an interrupt that was asked for and got lost on its way (in a destructor, a callback).

    Raises:
        KeyboardInterrupt: it was asked for.
    """
    _interrupts.raise_asked()


def ends_with_code(command: Callable[Parameters, int]) -> Callable[Parameters, None]:
    """A command that exits with the code it returns, or with the one of its error."""

    @functools.wraps(command)
    def ending(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        _interrupts.listen()
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
