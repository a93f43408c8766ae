"""Notices that sources have changed, and telling the runs that rest on them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from models import hot, hot_sources
from models.database import Database
from models.hot_settle import IMPATIENCE
from models.input_checks import check_input, check_storable
from models.outcomes import UNKNOWN_DETAIL
from umbel.contracts import RunId
from umbel.errors import Contended, InvalidInput
from umbel.faults import fault
from umbel.source_name import check_revision, parse_source

BATCH: Final = 100
"""Runs that are looked up at once; each is told in a transaction of its own."""
MAX_REASON_CHARS: Final = 500
_SKIPPED: Final = (
    "Not started: what it was decided on has changed meanwhile. The results are shown as they are "
    "now; decide again."
)
_SKIPPED_BODY: Final = json.dumps(
    {"error": {"code": "source_changed", "message": _SKIPPED}}, separators=(",", ":")
)


@dataclass(frozen=True, slots=True)
class Notice:
    """Somebody's word that a source is not what it was."""

    source: str
    """`kind:id`."""
    revision: str | None = None
    """Which it has now; of a deletion the last one. None: the notice does not say."""
    is_deleted: bool = False
    reason: str = ""
    """For the model, beside a gap."""
    text: str | None = None
    """What it says now, for runs that were given its text; others read it again themselves."""

    def checked(self) -> "Notice":
        """The same.

        Raises:
            InvalidInput: it cannot be stored, or names nothing.
        """
        parse_source(self.source)
        if self.revision is not None:
            check_revision(self.revision)
        check_storable("The reason", self.reason)
        if self.text is not None:
            check_input(self.text)
        if len(self.reason) > MAX_REASON_CHARS:
            raise InvalidInput(
                f"The reason has {len(self.reason)} characters; at most {MAX_REASON_CHARS}."
            )
        return self


@dataclass(frozen=True, slots=True)
class Told:
    """A run that has heard of a change."""

    run_id: RunId
    moves: bool
    """What it has not committed yet is stale; False: the change waits for its next step."""
    is_paused: bool
    next_step: int | None
    """Set when it is ready for a step at once."""


@dataclass(frozen=True, slots=True)
class Untold:
    """A notice that not every run has heard of."""

    tenant: str
    source: str
    seq: int


def record_notice(database: Database, tenant: str, notice: Notice) -> tuple[bool, Untold | None]:
    """Write a notice down: whether it brings news, and what has to be told to runs.

    The same notice again, or one of an older revision, brings none. When this has returned, no
    result that was read before can be stored without its run looking at the source again.

    Raises:
        InvalidInput: it cannot be stored, or names nothing.
    """
    parameters = {
        "tenant": tenant,
        "source": notice.checked().source,
        "revision": notice.revision,
        "is_deleted": notice.is_deleted,
        "reason": notice.reason,
        "text": notice.text,
    }
    _, news, found = database.run(
        (hot_sources.LOCK_ALONE, parameters),
        (hot_sources.CHANGE, parameters),
        (hot_sources.FIND, parameters),
    )
    fault("source.recorded")
    row = found[0]
    left = Untold(tenant, notice.source, row["seq"]) if row["told_seq"] < row["seq"] else None
    return bool(news), left


def tell_runs(database: Database, untold: Untold) -> Iterator[Told]:
    """Tell every run at work that rests on a changed source, one by one, from where it was left.

    Safe to do twice, and for several at once. A run that is locked for long is left to the next.

    Raises:
        Unavailable: PostgreSQL does not answer; the rest is told later.
    """
    about = {"tenant": untold.tenant, "source": untold.source, "seq": untold.seq}
    is_complete, is_done = True, False
    while not is_done:
        [rows] = database.run((hot_sources.RESTING, about | {"limit": BATCH}))
        for row in rows:
            try:
                told = _tell(database, RunId(row["id"]), untold.source)
            except Contended:
                is_complete = False
                continue
            if told is not None:
                yield told
        is_done = len(rows) < BATCH
        if not is_complete:
            return  # the next teller begins where this batch began
        last = rows[-1]["id"] if rows else ""
        database.run((hot_sources.TOLD, about | {"told_run": last, "is_done": is_done}))


def untold_notices(database: Database, *, after_seconds: float, limit: int) -> list[Untold]:
    """Notices whose teller seems to have died: they are older than `after_seconds`."""
    [rows] = database.run((hot_sources.UNTOLD, {"after": after_seconds, "limit": limit}))
    return [Untold(row["tenant"], row["source"], row["seq"]) for row in rows]


def _tell(database: Database, run_id: RunId, source: str) -> Told | None:
    parameters = {
        "run_id": run_id,
        "source": source,
        "skipped_body": _SKIPPED_BODY,
        "unknown_detail": UNKNOWN_DETAIL,
    }
    *_, rows = database.run(
        (IMPATIENCE, {}), (hot.LOCK_RUN, parameters), (hot_sources.TELL, parameters)
    )
    fault("source.told", run_id=run_id)
    if not rows:
        return None
    row = rows[0]
    return Told(run_id, row["moves"], row["pauses"], row["next_step"])
