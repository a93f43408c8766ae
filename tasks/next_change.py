"""Ringing for a change that waited for another one of its resource key."""

from contextlib import suppress

from models.database import Database
from models.resource_keys import next_change
from tasks.ringing import Ringer
from umbel.contracts import CallId
from umbel.errors import Unavailable
from umbel.log_context import afresh


def ring_next_change(database: Database, ringer: Ringer, call_id: CallId) -> None:
    """Ring for the change that may start now that this one has ended; the sweeper would later."""
    with suppress(Unavailable):
        found = next_change(database, call_id)
        if found is not None:
            with afresh():  # most likely it belongs to another run
                ringer.ring_call(found.call_id, found.tool)
