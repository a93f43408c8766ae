"""Tools that say nothing, in every way in which a tool can."""

import re
import time
from contextlib import suppress
from threading import Event

import umbel

FOR_EVER = 600.0
STALL_SECONDS = 2.0


@umbel.tool(effect="read", stall_seconds=STALL_SECONDS)
def silent_read() -> str:
    """Wait."""
    Event().wait(FOR_EVER)
    return "never"


@umbel.tool(effect="mutation", stall_seconds=STALL_SECONDS)
def silent_change() -> str:
    """Wait, with a change on its way."""
    Event().wait(FOR_EVER)
    return "never"


@umbel.tool(effect="read", stall_seconds=STALL_SECONDS)
def talking_read(context: umbel.ToolContext) -> str:
    """Say something all the time, for much longer than a tool may be silent."""
    ends_at = time.monotonic() + 3 * STALL_SECONDS
    while time.monotonic() < ends_at:
        Event().wait(0.1)
        context.progress()
    return "talked"


@umbel.tool(effect="read", stall_seconds=STALL_SECONDS)
def deaf_read() -> str:
    """Go on whatever is raised."""
    while True:
        with suppress(BaseException):
            Event().wait(FOR_EVER)


@umbel.tool(effect="read", stall_seconds=STALL_SECONDS)
def frozen_read() -> str:
    """Compute inside C code that lets no other thread run: no Python can end it."""
    return str(re.match(r"(a+)+$", "a" * 64 + "b"))
