"""News for the streams of a process: their run was stopped, corrected, or given to another worker.

The record is asked once for all of them, every few seconds, and at once for those that a wake-up
names. A decision made after such news would not be applied anyway; hearing of it saves what the
model would still say.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Final

import redis

from locks.wake_ups import WakeUpListener
from models.database import Database
from models.steps import Claim
from models.watching import Standing, standing_of
from providers.contract import AbortReason, StreamHandle
from umbel.contracts import RunId
from umbel.errors import Unavailable

log: Final = logging.getLogger(__name__)

_LISTEN_SECONDS: Final = 1.0
_REST_SECONDS: Final = 1.0
"""After Redis has failed to answer."""


class ClaimsWatch:
    """The claims that streams of this process work under."""

    def __init__(self, database: Database, look_seconds: float) -> None:
        self._database = database
        self._look_seconds = look_seconds
        self._claims: dict[RunId, Claim] = {}
        self._handles: dict[RunId, StreamHandle] = {}
        self._standings: dict[RunId, Standing] = {}
        self._expected: set[RunId] = set()
        self._missed: set[RunId] = set()
        self._looked_at = time.monotonic()
        self._looking = Lock()

    @contextmanager
    def expecting(self, run_id: RunId) -> Iterator[None]:
        """Remember wake-ups of a run in the block: they may come before its stream is watched."""
        self._expected.add(run_id)
        try:
            yield
        finally:
            self._expected.discard(run_id)
            self._missed.discard(run_id)

    @contextmanager
    def watching(self, claim: Claim, handle: StreamHandle) -> Iterator[None]:
        """Keep an eye on a claim during the block; a wake-up ends its stream through `handle`.

        One that came since the run was expected counts too, so that nothing is sent after it.
        """
        self._claims[claim.run_id] = claim
        self._handles[claim.run_id] = handle
        try:
            # After the two lines above: from there on `wake` itself finds the stream.
            if claim.run_id in self._missed:
                self._missed.discard(claim.run_id)
                self.wake([claim.run_id])
            yield
        finally:
            self._handles.pop(claim.run_id, None)
            self._claims.pop(claim.run_id, None)
            self._standings.pop(claim.run_id, None)

    def news(self, claim: Claim) -> AbortReason | None:
        """Why this stream should end; asks the record when it is time, for all streams."""
        if time.monotonic() - self._looked_at >= self._look_seconds:
            self._look()
        return _reason(claim, self._standings.get(claim.run_id))

    def wake(self, run_ids: Iterable[RunId]) -> None:
        """Look at these runs now, and end those streams that the record gives a reason to end."""
        woken = list(run_ids)
        self._missed.update(self._expected.intersection(woken))
        watched = [run_id for run_id in woken if run_id in self._claims]
        if not watched:
            return
        for run_id, standing in standing_of(self._database, watched).items():
            claim, handle = self._claims.get(run_id), self._handles.get(run_id)
            if claim is None or handle is None:
                continue  # its stream has ended meanwhile
            reason = _reason(claim, standing)
            if reason is not None:
                handle.abort(reason)

    def listen(self, listener: WakeUpListener) -> None:
        """Hear wake-ups until the process ends (a greenlet where gevent runs)."""
        Thread(target=self._listen, args=(listener,), name="umbel-wake-ups", daemon=True).start()

    def _listen(self, listener: WakeUpListener) -> None:
        pause = Event()
        while True:
            try:
                self.wake(listener.hear(_LISTEN_SECONDS))
            except (redis.RedisError, OSError, Unavailable):
                pause.wait(_REST_SECONDS)  # the record is looked at anyway
            except Exception:  # it must outlive whatever it meets
                log.exception("a wake-up failed")
                pause.wait(_REST_SECONDS)

    def _look(self) -> None:
        if not self._looking.acquire(blocking=False):
            return  # another stream asks for all at this moment
        try:
            watched = list(self._claims)
            found = standing_of(self._database, watched)
            self._standings = {run: found[run] for run in watched if run in found}
        except Unavailable:
            pass  # nobody is told anything while the record is away
        finally:
            self._looked_at = time.monotonic()
            self._looking.release()


def _reason(claim: Claim, standing: Standing | None) -> AbortReason | None:
    """Why a stream under this claim should end."""
    if standing is None or standing.fence < claim.fence:
        return None  # looked at before this claim
    if standing.fence > claim.fence:
        return "lease_lost"
    if standing.is_stopped:
        return "stop"
    if standing.steer_rev > claim.steer_rev:
        return "steer"
    return "source" if standing.source_rev > claim.source_rev else None
