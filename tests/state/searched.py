"""Every scenario is searched once per session, for all tests that look at what was found."""

from functools import cache
from typing import Final

from tests.state.cases import Case, Collector
from tests.state.search import Found, Search
from tests.state.system import Scenario

OF_EACH_KIND: Final = 1


@cache
def searched(scenario: Scenario) -> tuple[Found, list[Case]]:
    """What the search came to, and a few cases of each kind that it met."""
    collector = Collector(scenario, OF_EACH_KIND)
    return Search(scenario, observe=collector).run(), collector.cases
