"""The fields of `expect`, each with the function that compares it; FORMAT.md gives the meanings."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.cases import expect_calls, expect_context, expect_model, expect_outcome
from tests.cases.found import Found

Check = Callable[[Found, Any], Iterator[str]]

CHECKS: Final[dict[str, Check]] = {
    **expect_outcome.CHECKS,
    **expect_model.CHECKS,
    **expect_calls.CHECKS,
    **expect_context.CHECKS,
}


def compare(found: Found) -> list[str]:
    """One line for everything that is not as the case expects; `expected …, found …`."""
    expected = {"provider_rejections": 0, **found.world.case.expect}
    problems = list(found.world.problems)
    for field, value in expected.items():
        if field in CHECKS:
            problems += CHECKS[field](found, value)
    return problems
