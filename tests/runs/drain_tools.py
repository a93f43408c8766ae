"""Tools that are at work when their worker is told to end; each entry is a line in a ledger."""

import os
import time
from pathlib import Path
from threading import Event

import umbel

LONG_SECONDS = 60.0
FOLDER = "UMBEL_TEST_DRAIN_FOLDER"


@umbel.tool(effect="read", repeatable=True)
def long_sleep(context: umbel.ToolContext) -> str:
    """Wait, without a word, until the test is in a hurry."""
    _note("long_sleep", context)
    _wait(LONG_SECONDS)
    return "slept"


@umbel.tool(effect="idempotent", repeatable=True)
def long_loop(context: umbel.ToolContext) -> str:
    """Wait in small pieces, and say so after each."""
    _note("long_loop", context)
    for _ in range(round(LONG_SECONDS / 0.1)):
        if not _wait(0.1):
            break
        context.progress()
    return "looped"


@umbel.tool(effect="mutation", repeatable=True)
def long_change(context: umbel.ToolContext) -> str:
    """Be at a change, and say so, until the test is in a hurry."""
    _note("long_change", context)
    while _wait(0.1):
        context.progress()
    _note("long_changed", context)
    return "changed"


@umbel.tool(effect="read", repeatable=True)
def stubborn(context: umbel.ToolContext) -> str:
    """Swallow whatever ends it and claim a result."""
    _note("stubborn", context)
    try:
        _wait(LONG_SECONDS)
    except BaseException as error:  # noqa: BLE001 - that is what it is for
        return f"not really {error!r}"
    return "done"


@umbel.tool(effect="mutation", repeatable=True)
def change(context: umbel.ToolContext) -> str:
    """Take two seconds over a change, whatever happens around it."""
    _note("change", context)
    Event().wait(2.0)
    _note("changed", context)
    return "changed"


def _note(what: str, context: umbel.ToolContext) -> None:
    with (Path(os.environ[FOLDER]) / "ledger").open("a") as ledger:
        ledger.write(f"{what} {context.call_id}\n")


def _wait(seconds: float) -> bool:
    """One wait; False at once if the test is in a hurry."""
    if (Path(os.environ[FOLDER]) / "hurry").exists():
        return False
    ends_at = time.monotonic() + seconds
    Event().wait(ends_at - time.monotonic())
    return True
