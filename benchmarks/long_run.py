"""What a step of a very long run sends, reads and takes: flat, however long the run is.

`python benchmarks/long_run.py [STEPS]` (default 1000) carries one run with results of 2 KB through
a window of 8,000 tokens, in one process on an embedded PostgreSQL, and prints a row of means for
every hundred steps. It fails if bytes, or milliseconds of processor time, differ by more than a
fifth from their mean; the time on the clock depends on what else the machine does.
"""

import sys
import time
from dataclasses import dataclass
from itertools import islice
from statistics import mean, median
from typing import Final

import psutil

from models.database import Database
from models.migration import migrate
from tests.tasks.long_run import carry_long_run
from umbel.embedded import embedded_servers

FILLING: Final = 10
"""Steps until the window is full for the first time."""
BLOCK: Final = 100
MOST: Final = 1.2
_BACKENDS: Final = "SELECT pid FROM pg_stat_activity WHERE application_name = 'umbel-long'"


@dataclass(frozen=True, slots=True)
class Block:
    """Means of a hundred steps."""

    steps: str
    sent_bytes: float
    read_bytes: float
    read_rows: float
    worker_ms: float
    """Processor time of the process that carries the run, its model included."""
    server_ms: float
    """Processor time of its PostgreSQL backends."""
    clock_ms: float
    """Median."""
    summaries: int


def measure(url: str, steps: int) -> list[Block]:
    """Carry the run and look at the clocks after each block."""
    looking = Database(url, role="look", pool_size=1)
    blocks = []
    costs = carry_long_run(url, steps)
    list(islice(costs, FILLING))
    before = _clocks(looking)
    while block := list(islice(costs, BLOCK)):
        after = _clocks(looking)
        worker, server = ((b - a) / len(block) * 1_000 for a, b in zip(before, after, strict=True))
        before = after
        blocks.append(
            Block(
                steps=f"{block[0].step}-{block[-1].step}",
                sent_bytes=mean(cost.sent_bytes for cost in block),
                read_bytes=mean(cost.read_bytes for cost in block),
                read_rows=mean(cost.read_rows for cost in block),
                worker_ms=worker,
                server_ms=server,
                clock_ms=median(cost.seconds for cost in block) * 1_000,
                summaries=sum(cost.summaries for cost in block),
            )
        )
    looking.close()
    return blocks


def _clocks(database: Database) -> tuple[float, float]:
    """Seconds of processor time so far: this process, its backends."""
    [rows] = database.run((_BACKENDS, {}))
    server = [psutil.Process(row["pid"]).cpu_times() for row in rows]
    return time.process_time(), sum(times.user + times.system for times in server)


def main() -> int:
    """Run, tell, and judge."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    with embedded_servers() as servers:
        migrate(servers.database_url)
        blocks = measure(servers.database_url, steps)
    write = sys.stdout.write
    write("| steps | bytes sent | bytes read | rows | worker ms | server ms | clock ms | cuts |\n")
    write("| --- " * 8 + "|\n")
    for b in blocks:
        write(
            f"| {b.steps} | {b.sent_bytes:,.0f} | {b.read_bytes:,.0f} | {b.read_rows:.0f} | "
            f"{b.worker_ms:.1f} | {b.server_ms:.1f} | {b.clock_ms:.0f} | {b.summaries} |\n"
        )
    spread = {
        "bytes sent": _spread([b.sent_bytes for b in blocks]),
        "bytes read": _spread([b.read_bytes for b in blocks]),
        "processor": _spread([b.worker_ms + b.server_ms for b in blocks]),
    }
    write(f"farthest from the mean: {spread}\n")
    return 0 if max(spread.values()) <= MOST else 1


def _spread(values: list[float]) -> float:
    return round(max(max(values) / mean(values), mean(values) / min(values)), 2)


if __name__ == "__main__":
    sys.exit(main())
