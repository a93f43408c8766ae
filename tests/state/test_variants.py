"""A check that cannot fail proves nothing: each planted fault is found, by the shortest way."""

import pytest

from tests.state.search import Search
from tests.state.variants import VARIANTS, Variant


@pytest.mark.parametrize("variant", VARIANTS, ids=[variant.name for variant in VARIANTS])
def test_a_planted_fault_is_found(variant: Variant) -> None:
    found = Search(variant.scenario, variant.system).run()
    print(f"{variant.name}: {found}")  # noqa: T201 - shown with -s
    assert found.broken == variant.broken, str(found)
    assert found.trace
