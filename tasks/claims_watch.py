"""News for the streams of a process: their run was stopped, corrected, or given to another worker.

The record is asked once for all of them, every few seconds. A decision made after such news would
not be applied anyway; hearing of it saves what the model would still say.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from models.database import Database
from models.steps import Claim
from models.watching import Standing, standing_of
from providers.contract import AbortReason
from umbel.contracts import RunId
from umbel.errors import Unavailable


class ClaimsWatch:
    """The claims that streams of this process work under."""

    def __init__(self, database: Database, look_seconds: float) -> None:
        self._database = database
        self._look_seconds = look_seconds
        self._claims: dict[RunId, Claim] = {}
        self._standings: dict[RunId, Standing] = {}
        self._looked_at = time.monotonic()
        self._looking = Lock()

    @contextmanager
    def watching(self, claim: Claim) -> Iterator[None]:
        """Keep an eye on a claim during the block."""
        self._claims[claim.run_id] = claim
        try:
            yield
        finally:
            self._claims.pop(claim.run_id, None)
            self._standings.pop(claim.run_id, None)

    def news(self, claim: Claim) -> AbortReason | None:
        """Why this stream should end; asks the record when it is time, for all streams."""
        if time.monotonic() - self._looked_at >= self._look_seconds:
            self._look()
        standing = self._standings.get(claim.run_id)
        if standing is None or standing.fence < claim.fence:
            return None  # looked at before this claim
        if standing.fence > claim.fence:
            return "lease_lost"
        if standing.is_stopped:
            return "stop"
        return "steer" if standing.steer_rev > claim.steer_rev else None

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
