"""An interrupt ends a command, wherever it meets it."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest
import typer

from umbel.cli.ending import ends_with_code, importing, raise_if_interrupted

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = [(number, signal.getsignal(number)) for number in NUMBERS]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_an_interrupt_during_an_import_is_raised_after_it(number: signal.Signals) -> None:
    done: list[str] = []

    @ends_with_code
    def command() -> int:
        with importing():
            os.kill(os.getpid(), number)
            done.append("imported")
        done.append("went on")
        return 0

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == 128 + number
    assert done == ["imported"]


def test_an_interrupt_that_was_lost_is_raised_at_the_next_look() -> None:
    done: list[str] = []

    @ends_with_code
    def command() -> int:
        raise_if_interrupted()
        with suppress(KeyboardInterrupt):  # as in a destructor
            os.kill(os.getpid(), signal.SIGINT)
        done.append("lost")
        raise_if_interrupted()
        done.append("went on")
        return 0

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == 128 + signal.SIGINT
    assert done == ["lost"]


def test_an_interrupt_that_was_lost_before_an_import_is_raised_after_it() -> None:
    done: list[str] = []

    @ends_with_code
    def command() -> int:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        with importing():
            done.append("imported")
        done.append("went on")
        return 0

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == 128 + signal.SIGINT
    assert done == ["imported"]


def test_what_an_earlier_command_was_asked_is_forgotten() -> None:
    @ends_with_code
    def interrupted() -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return 0

    @ends_with_code
    def command() -> int:
        raise_if_interrupted()
        with importing():
            pass
        return 0

    for wanted, ending in ((130, interrupted), (0, command)):
        with pytest.raises(typer.Exit) as ended:
            ending()
        assert ended.value.exit_code == wanted
