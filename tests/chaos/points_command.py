"""`python -m tests.chaos.points_command --repeat 30`: the large matrix, and its table."""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from tests.chaos.points_matrix import PHASES, RACES, Phase, run_matrix
from tests.chaos.points_mutants import MUTANTS
from tests.chaos.points_ways import Hurt
from tests.services import running_services


def main() -> int:
    """Run the matrix; the exit code is 0 only if every pair was hit and nothing was broken."""
    asked = _arguments()
    began, is_over = time.monotonic(), threading.Event()
    signal.signal(signal.SIGINT, lambda *_: is_over.set())
    with running_services() as services:
        table = run_matrix(
            services,
            repeat=asked.repeat,
            seed=asked.seed,
            phases=_phases(asked),
            mutant=asked.mutant,
            longest_seconds=asked.longest,
            is_over=is_over.is_set,
            choose=lambda hurt: _is_wanted(hurt, asked.mutant, asked.only),
            tell=lambda line: _say(f"[{time.monotonic() - began:6.0f}] {line}"),
        )
    for line in [*table.violations, *table.missed]:
        _say(line)
    _say(f"{table.text()}; {time.monotonic() - began:.0f} s, seed {asked.seed}")
    return 1 if table.violations or table.missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.points_command",
        description=__doc__,
        epilog="A mutant is planted into workers; the run must then end with violations. "
        "After Ctrl-C nothing new is entered, and the table tells of what was.",
    )
    parser.add_argument("--repeat", type=int, default=30, help="times each pair is hit")
    parser.add_argument("--seed", type=int, default=1, help="order in which runs are entered")
    parser.add_argument("--mutant", choices=["", *MUTANTS], default="", help="a planted fault")
    parser.add_argument("--only", default="", help="points whose name contains this")
    parser.add_argument(
        "--longest", type=float, default=float("inf"), help="seconds of each of the two phases"
    )
    parser.add_argument(
        "--races", action="store_true", help="stop and steer at every point instead of hurting it"
    )
    return parser.parse_args()


def _phases(asked: argparse.Namespace) -> Sequence[Phase]:
    if asked.races:
        return (replace(RACES, is_loose=asked.repeat > 1),)
    return PHASES[:1] if asked.mutant else PHASES


def _is_wanted(hurt: Hurt, mutant: str, part: str) -> bool:
    points = [order.point for order in hurt.orders]
    if mutant:
        return any(point in MUTANTS[mutant].points for point in points)
    return any(part in point for point in points)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a command's answer


if __name__ == "__main__":
    sys.exit(main())
