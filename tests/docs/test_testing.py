"""Numbers that docs/testing.md gives of what stands in the code."""

import re
from pathlib import Path

import pytest

from tests.state.scenarios import LARGE, SCENARIOS
from tests.state.variants import VARIANTS

TEXT = (Path(__file__).resolve().parents[2] / "docs/testing.md").read_text()
WORDS = {13: "thirteen", 14: "fourteen", 15: "fifteen", 5: "five", 6: "six", 7: "seven"}


@pytest.mark.parametrize(
    ("pattern", "number"),
    [
        (r"(\w+) planted faults; a test asks", len(VARIANTS)),
        (r"states in (\w+) scenarios", len(SCENARIOS)),
        (r"(\w+) more are the scenarios that\s+`make state` adds", len(LARGE)),
    ],
)
def test_a_number_is_what_the_code_has(pattern: str, number: int) -> None:
    found = re.search(pattern, TEXT)
    assert found is not None, f"docs/testing.md does not say {pattern!r} any more"
    assert found[1].lower() in (str(number), WORDS.get(number))
