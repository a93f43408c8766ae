"""What a step of a very long run sends, reads and takes: flat, however long the run is.

`python benchmarks/long_run.py [STEPS]` (default 1000) carries one run with results of 2 KB through
a window of 8,000 tokens, in one process on an embedded PostgreSQL, and prints a row of means for
every hundred steps. It fails if bytes or milliseconds differ by more than a fifth from their mean.
"""

import sys
from collections.abc import Callable
from statistics import mean, median
from typing import Final

from models.migration import migrate
from tests.tasks.long_run import StepCost, carry_long_run
from umbel.embedded import embedded_servers

FILLING: Final = 10
"""Steps until the window is full for the first time."""
BLOCK: Final = 100
MOST: Final = 1.2

COLUMNS: Final[dict[str, Callable[[list[StepCost]], float]]] = {
    "bytes sent": lambda costs: mean(cost.sent_bytes for cost in costs),
    "bytes read": lambda costs: mean(cost.read_bytes for cost in costs),
    "ms": lambda costs: median(cost.seconds for cost in costs) * 1_000,
}


def main() -> int:
    """Run, tell, and judge."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    with embedded_servers() as servers:
        migrate(servers.database_url)
        costs = list(carry_long_run(servers.database_url, steps))[FILLING:]
    blocks = [costs[at : at + BLOCK] for at in range(0, len(costs), BLOCK)]
    blocks = [block for block in blocks if len(block) > BLOCK // 2]
    write = sys.stdout.write
    write(f"| steps | {' | '.join(COLUMNS)} | rows read | summaries |\n")
    write("| --- " * (len(COLUMNS) + 3) + "|\n")
    for block in blocks:
        values = " | ".join(f"{of(block):.1f}" for of in COLUMNS.values())
        rows = mean(cost.read_rows for cost in block)
        summaries = sum(cost.summaries for cost in block)
        write(f"| {block[0].step}-{block[-1].step} | {values} | {rows:.1f} | {summaries} |\n")
    spread = {name: _spread([of(block) for block in blocks]) for name, of in COLUMNS.items()}
    write(f"largest against mean: {spread}\n")
    return 0 if max(spread.values()) <= MOST else 1


def _spread(values: list[float]) -> float:
    return round(max(max(values) / mean(values), mean(values) / min(values)), 2)


if __name__ == "__main__":
    sys.exit(main())
