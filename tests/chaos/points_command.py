"""`python -m tests.chaos.points_command --repeat 30`: the large matrix, and its table."""

import argparse
import sys
import time

from tests.chaos.points_matrix import run_matrix
from tests.chaos.points_mutants import MUTANTS
from tests.services import running_services


def main() -> int:
    """Run the matrix; the exit code is 0 only if every pair was hit and nothing was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=30, help="times each pair is hit")
    parser.add_argument("--seed", type=int, default=1, help="order in which runs are entered")
    parser.add_argument("--mutant", choices=MUTANTS, default="", help="a fault to be caught")
    parser.add_argument("--only", default="", help="points whose name contains this")
    asked = parser.parse_args()
    began = time.monotonic()
    with running_services() as services:
        table = run_matrix(
            services,
            repeat=asked.repeat,
            seed=asked.seed,
            mutant=asked.mutant,
            choose=lambda hurt: any(asked.only in order.point for order in hurt.orders),
        )
    for line in [*table.violations, *table.missed]:
        print(line)  # noqa: T201 - what it is for
    lasted = f"{time.monotonic() - began:.0f} s, seed {asked.seed}"
    print(f"{table.text()}; {lasted}")  # noqa: T201 - what it is for
    return 1 if table.violations or table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
