"""Seeded random chaos, small: a whole system is hurt in every way, heals, and keeps its promises.

`make chaos` does more of it; docs/testing.md, "Chaos".
"""

import pytest

from tests.chaos.harness.campaign import Plan, carry_out
from tests.chaos.harness.nemesis import FAULTS
from tests.chaos.harness.report import failure_of, table_of


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_system_that_was_hurt_in_every_way_heals_and_has_kept_every_promise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = Plan(runs=25, kills=20, seed=5, longest_seconds=60.0)
    outcome = carry_out(plan, lambda line: print(line))  # noqa: T201 - shown when it fails
    print(table_of(outcome))  # noqa: T201

    assert not outcome.violations, failure_of(outcome)
    assert outcome.kills >= plan.kills
    assert [fault for fault in FAULTS if not outcome.faults[fault]] == []
    assert outcome.settle_seconds == [] or max(outcome.settle_seconds) <= plan.settle_seconds
    assert "model" in outcome.figures
