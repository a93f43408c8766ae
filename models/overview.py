"""How the whole system stands, for Prometheus: cheap however many runs have been settled.

Every count reads a partial index of rows that are not over; nothing here looks at settled runs.
"""

from dataclasses import dataclass
from typing import Final

from models import tallies
from models.database import Database, Row
from models.hot_calls import READY_SINCE
from umbel.names import LOOP_QUEUE, TOOLS_QUEUE
from umbel.tallies import Series

TIMEOUT_SECONDS: Final = 2
LOOKED_AT: Final = 10_000
"""Ready rows whose age is looked at; of a longer backlog those that were announced longest ago."""

_READ_ONLY: Final = "SET TRANSACTION READ ONLY"
_TIMEOUT: Final = f"SET LOCAL statement_timeout = '{TIMEOUT_SECONDS}s'"

# One arm per partial index.
RUNS: Final = """
SELECT status, reason, count(*) AS n FROM runs WHERE status = 'queued' GROUP BY status, reason
UNION ALL
SELECT status, reason, count(*) FROM runs WHERE status IN ('running', 'waiting', 'cancelling')
GROUP BY status, reason
UNION ALL
SELECT 'paused', reason, count(*) FROM runs WHERE status = 'paused' GROUP BY reason
"""

# A run is ready since its last event. That is asked for row by row, because a join could be planned
# as a reading of all events.
READY_RUNS: Final = f"""
SELECT
  (SELECT count(*) FROM runs
    WHERE work = 'ready' AND (not_before IS NULL OR not_before <= now())) AS depth,
  (SELECT max(extract(epoch FROM now() - greatest(r.not_before,
      (SELECT e.at FROM events e WHERE e.run_id = r.id AND e.seq = r.next_seq - 1))))::float8
    FROM (SELECT id, next_seq, not_before FROM runs
      WHERE work = 'ready' AND (not_before IS NULL OR not_before <= now())
      ORDER BY ring_at NULLS FIRST LIMIT {LOOKED_AT}) r) AS oldest_seconds
"""  # noqa: S608 - constant text, no input
READY_CALLS: Final = f"""
SELECT (SELECT count(*) FROM calls WHERE state = 'ready') AS depth,
  (SELECT max(extract(epoch FROM now() - {READY_SINCE}))::float8
    FROM (SELECT run_id, step, ring_at, rings FROM calls WHERE state = 'ready'
      ORDER BY ring_at NULLS FIRST LIMIT {LOOKED_AT}) c) AS oldest_seconds
"""  # noqa: S608 - constant text, no input
UNKNOWN_RECEIPTS: Final = (
    "SELECT count(*) AS n FROM receipts WHERE outcome = 'unknown' AND verified IS NULL"
)
WORKERS: Final = """
SELECT role, count(*) AS n FROM workers
WHERE beat_at > now() - make_interval(secs => %(dead_after)s) GROUP BY role
"""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits for a worker."""

    depth: int
    oldest_seconds: float
    """Since it became ready; 0 when nothing waits."""


@dataclass(frozen=True, slots=True)
class Overview:
    """One consistent enough look: each number is true, all of them within milliseconds."""

    runs: dict[tuple[str, str], int]
    """By status and reason; settled ones only as far as they are paused."""
    ready: dict[str, Backlog]
    """By queue."""
    unknown_receipts: int
    workers: dict[str, int]
    """Living processes by the name of their worker."""
    tallies: dict[Series, float]


def look(database: Database, *, dead_after_seconds: float) -> Overview:
    """The state of the system, in one read-only transaction of one round trip.

    Raises:
        Unavailable: PostgreSQL does not answer, or a statement takes more than two seconds.
    """
    _, _, runs, ready_runs, ready_calls, unknown, workers, counted = database.run(
        (_READ_ONLY, {}),
        (_TIMEOUT, {}),
        (RUNS, {}),
        (READY_RUNS, {}),
        (READY_CALLS, {}),
        (UNKNOWN_RECEIPTS, {}),
        (WORKERS, {"dead_after": dead_after_seconds}),
        (tallies.LOAD, {}),
    )
    return Overview(
        runs={(row["status"], row["reason"] or ""): row["n"] for row in runs},
        ready={LOOP_QUEUE: _backlog(ready_runs[0]), TOOLS_QUEUE: _backlog(ready_calls[0])},
        unknown_receipts=unknown[0]["n"],
        workers={row["role"]: row["n"] for row in workers},
        tallies=tallies.tallies_of((row["name"], row["labels"], row["n"]) for row in counted),
    )


def _backlog(row: Row) -> Backlog:
    return Backlog(row["depth"], max(row["oldest_seconds"] or 0.0, 0.0))
