"""Logs when the heartbeat stops getting through, and when it does again: once each.

The heartbeat's own thread must not log (tasks/native.py), so an ordinary one asks it.
"""

import logging
from threading import Event, Thread
from typing import Final

from tasks.presence import Presence
from umbel.safe_text import one_line

log: Final = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 1.0
_CAUSE_CHARS: Final = 300


class PresenceLog:
    """The log of one presence."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        self._is_over = Event()

    def start(self) -> None:
        """Look every second until `stop` (a greenlet where gevent runs)."""
        Thread(target=self._look_for_ever, name="umbel-presence-log", daemon=True).start()

    def stop(self) -> None:
        """The process ends."""
        self._is_over.set()

    def look(self) -> None:
        """Log what has changed since the last look."""
        changes = self._presence.changes
        while changes:
            cause = changes.popleft()
            if cause is None:
                log.info("heartbeat taken again by PostgreSQL")
            else:
                shown = one_line(cause, _CAUSE_CHARS)
                log.warning("heartbeat not taken by PostgreSQL", extra={"cause": shown})

    def _look_for_ever(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            self.look()
