"""What a campaign prints at its end."""

import statistics
from collections import Counter

from tests.chaos.harness.campaign import Outcome
from tests.chaos.harness.judge import RULES


def table_of(outcome: Outcome) -> str:
    """One table: faults tried, rules checked, times."""
    found = Counter(violation.rule for violation in outcome.violations)
    lines = [
        "| faults tried | times |",
        "| --- | ---: |",
        *(f"| {fault} | {count} |" for fault, count in outcome.faults.items()),
        "| **violations found** | |",
        *(f"| {rule} | {found[rule]} |" for rule in RULES),
        "| **how it went** | |",
        f"| hurt | {outcome.hurt_seconds:.0f} s |",
        f"| everybody back | {outcome.back_seconds:.1f} s |",
        f"| settled after that: {_times(outcome.settle_seconds)} | |",
        *(f"| {what}: {text} | |" for what, text in outcome.figures.items()),
    ]
    return "\n".join(lines)


def failure_of(outcome: Outcome) -> str:
    """Everything that is needed to look into it: seed, violations, fault log, traces."""
    plan = outcome.plan
    again = f"make chaos RUNS={plan.runs} KILLS={plan.kills} SEED={plan.seed}"
    again += f" MUTANT={plan.mutant}" if plan.mutant else ""
    lines = [
        f"seed {plan.seed}; the same faults in the same order: {again}",
        "",
        *(str(violation) for violation in outcome.violations),
        "",
        "what was done to it, in seconds since the beginning:",
        *outcome.fault_log,
        "",
        "what the record says of the first broken runs:",
        *outcome.traces,
    ]
    return "\n".join(lines)


def _times(seconds: list[float]) -> str:
    if not seconds:
        return "every run had settled"
    cut = statistics.quantiles([*seconds, seconds[-1]], n=100, method="inclusive")
    return (
        f"{len(seconds)} runs, p50 {statistics.median(seconds):.1f} s, p99 {cut[98]:.1f} s, "
        f"max {max(seconds):.1f} s"
    )
