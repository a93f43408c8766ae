"""A run's durable events, in order and without gaps."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from models.tables import events
from umbel.contracts import RunId


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a run."""

    seq: int
    kind: str
    ref: str | None
    data: dict[str, Any]
    fence: int
    at: datetime


def read_events(
    connection: Connection,
    run_id: RunId,
    after: int,
    limit: int = 500,
    *,
    since: datetime | None = None,
) -> list[Event]:
    """Events with a number above `after`, and not from before `since`, oldest first."""
    query = (
        select(
            events.c.seq, events.c.kind, events.c.ref, events.c.data, events.c.fence, events.c.at
        )
        .where(events.c.run_id == run_id, events.c.seq > after)
        .order_by(events.c.seq)
        .limit(limit)
    )
    if since is not None:
        query = query.where(events.c.at >= since)
    return [Event(**row) for row in connection.execute(query).mappings()]
