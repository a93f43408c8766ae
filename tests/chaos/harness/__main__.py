"""The command line: `python -m tests.chaos.harness --help`."""

import argparse
import logging
import sys
import time
from pathlib import Path

from tests.chaos.harness.campaign import Plan, Say, carry_out
from tests.chaos.harness.digest import compare
from tests.chaos.harness.judge import RULES
from tests.chaos.harness.mutants import MUTANTS
from tests.chaos.harness.nemesis import FAULTS
from tests.chaos.harness.report import failure_of, table_of

_ABOUT = """
Hurts a whole system (its own PostgreSQL and Valkey, step, tool and control workers, two beats) in
seeded order while owners hand in runs, stop, correct, resume and verify them; then heals it, waits
until everything has settled, and compares the record with ledgers kept outside of it.

The same seed gives the same requests, model answers, tools and the same order of faults; moments
differ, for the processes are real. Exit code 0: no violation; 1: violations; 2: bad arguments.
"""


def main() -> int:
    """Run what the arguments ask for."""
    arguments = _arguments()
    logging.getLogger().addHandler(logging.NullHandler())  # what fails is told by the table
    began = time.monotonic()

    def tell(line: str) -> None:
        _say(f"[{time.monotonic() - began:6.1f}] {line}")

    return _digest(arguments, tell) if arguments.digest else _campaign(arguments, tell)


def _campaign(arguments: argparse.Namespace, tell: Say) -> int:
    plan = Plan(
        runs=arguments.runs,
        kills=arguments.kills,
        seed=arguments.seed,
        settle_seconds=arguments.settle,
        mean_pause_seconds=arguments.pause,
        in_flight=arguments.in_flight,
        longest_seconds=arguments.longest or float("inf"),
        mutant=arguments.mutant or None,
    )
    outcome = carry_out(plan, tell)
    if arguments.log:
        arguments.log.write_text("\n".join(outcome.fault_log) + "\n")
    if outcome.violations:
        _say(failure_of(outcome))
    _say("")
    _say(table_of(outcome))
    return 1 if outcome.violations else 0


def _digest(arguments: argparse.Namespace, tell: Say) -> int:
    comparison = compare(arguments.seed, arguments.seconds, tell)
    for difference in comparison.differences:
        _say(difference)
    is_same = comparison.calm.digest == comparison.wiped.digest
    _say(
        f"{'the same' if is_same else 'ANOTHER'} digest, "
        f"throughput {comparison.throughput_ratio:.0%} of that without wipes"
    )
    return 0 if is_same else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.harness",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Faults: "
        + ", ".join(FAULTS)
        + ".\n\nRules:\n"
        + "\n".join(f"  {rule:<26} {means}" for rule, means in RULES.items()),
    )
    parser.add_argument("--runs", type=int, default=100, help="runs to hand in (100)")
    parser.add_argument("--kills", type=int, default=100, help="processes to kill (100)")
    parser.add_argument("--seed", type=int, default=1, help="decides everything but moments (1)")
    parser.add_argument(
        "--settle", type=float, default=60.0, help="seconds in which all must settle (60)"
    )
    parser.add_argument("--pause", type=float, default=0.4, help="mean seconds between faults")
    parser.add_argument("--in-flight", type=int, default=24, help="unsettled runs at most (24)")
    parser.add_argument("--longest", type=float, help="seconds of hurting at most")
    parser.add_argument(
        "--mutant", default="", choices=["", *MUTANTS], help="plant this fault in the product first"
    )
    parser.add_argument("--log", type=Path, help="a file for the list of faults")
    parser.add_argument(
        "--digest",
        action="store_true",
        help="no chaos: the same runs with and without a Redis that is emptied every 10 s",
    )
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="of handing in runs for --digest (120)"
    )
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
