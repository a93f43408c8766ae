"""Every interleaving of small scenarios keeps every rule and comes to rest by itself."""

import os

import pytest

from tests.state.scenarios import LARGE, SCENARIOS
from tests.state.search import Search
from tests.state.searched import searched
from tests.state.system import Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.name for scenario in SCENARIOS])
def test_every_interleaving_keeps_every_rule(scenario: Scenario) -> None:
    found, _ = searched(scenario)
    assert found.broken is None, str(found)
    assert found.states > 1_000, "the scenario has lost its faults"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif("UMBEL_STATE_LARGE" not in os.environ, reason="`make state` takes minutes")
@pytest.mark.parametrize("scenario", LARGE, ids=[scenario.name for scenario in LARGE])
def test_every_interleaving_of_more_faults_keeps_every_rule(scenario: Scenario) -> None:
    found = Search(scenario).run()
    print(f"{scenario.name}: {found}")  # noqa: T201
    assert found.broken is None, str(found)
