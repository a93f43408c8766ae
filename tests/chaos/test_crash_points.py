"""Every fault point with every action: a process dies, is frozen for too long, raises, waits.

All runs are carried by real workers, many at once. `points_ways.py` says how each must end.
"""

import pytest

from tests.chaos.points_matrix import PHASES, Phase, run_matrix
from tests.chaos.points_table import Table
from tests.chaos.points_ways import WAYS, hurts
from tests.services import Services
from umbel.faults import POINTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module", params=PHASES, ids=lambda phase: "-".join(phase.actions))
def table(services: Services, request: pytest.FixtureRequest) -> Table:
    """The small matrix of some of the actions: each pair is hit once."""
    phase: Phase = request.param
    return run_matrix(services, phases=[phase])


def test_run_that_was_hurt_once_ends_as_it_must(table: Table) -> None:
    assert not table.violations, "\n".join(table.violations)


def test_every_point_was_hit_by_every_action(table: Table) -> None:
    assert not table.missed, table.missed


def test_every_point_has_a_way_that_leads_there() -> None:
    assert set(WAYS) == set(POINTS)
    hit = {order.point for hurt in hurts(["delay"]) for order in hurt.orders}
    assert hit == set(POINTS)
