"""Fault points and actions: a process dies, is frozen for too long, raises, waits.

All runs are carried by real workers, many at once. `points_ways.py` says how each must end. Here a
process dies or raises at every point and is frozen at some; `make chaos POINTS=1` does it all.
"""

from collections.abc import Mapping
from typing import Final

import pytest

from tests.chaos.crash_hook import Action
from tests.chaos.points_matrix import PHASES, Phase, run_matrix
from tests.chaos.points_table import Table
from tests.chaos.points_ways import WAYS, Hurt, hurts
from tests.services import Services
from umbel.faults import POINTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ONE_OF: Final[Mapping[Action, tuple[int, int]]] = {"kill": (2, 0), "raise": (2, 1), "pause": (4, 0)}
"""Of so many points in order, which; `delay` is cheap and done at each."""


def is_in_the_small_matrix(hurt: Hurt) -> bool:
    order = hurt.orders[0]
    number, which = ONE_OF.get(order.action, (1, 0))
    return sorted(POINTS).index(order.point) % number == which


@pytest.fixture(scope="module", params=PHASES, ids=lambda phase: "-".join(phase.actions))
def table(services: Services, request: pytest.FixtureRequest) -> Table:
    """The small matrix of some of the actions: each pair is hit once."""
    phase: Phase = request.param
    return run_matrix(services, phases=[phase], choose=is_in_the_small_matrix)


def test_run_that_was_hurt_once_ends_as_it_must(table: Table) -> None:
    assert not table.violations, "\n".join(table.violations)


def test_every_chosen_point_was_hit_by_its_actions(table: Table) -> None:
    assert not table.missed, table.missed


def test_a_process_dies_or_raises_at_every_point() -> None:
    chosen = [hurt.orders[0] for hurt in hurts(["kill", "raise"]) if is_in_the_small_matrix(hurt)]
    assert {order.point for order in chosen} == set(POINTS)


def test_every_point_has_a_way_that_leads_there() -> None:
    assert set(WAYS) == set(POINTS)
    hit = {order.point for hurt in hurts(["delay"]) for order in hurt.orders}
    assert hit == set(POINTS)
