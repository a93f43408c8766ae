"""Comparisons that must be able to fail."""

import pytest

from tests.cases.matching import differs, fits, fits_pattern


@pytest.mark.parametrize(
    ("found", "expected", "is_fit"),
    [
        (2, 2, True),
        (2, 3, False),
        (2, {"min": 1, "max": 3}, True),
        (4, {"min": 1, "max": 3}, False),
        (4, {"min": 1}, True),
        (0, {"min": 1}, False),
        ("paused", ["failed", "paused"], True),
        ("completed", ["failed", "paused"], False),
        (None, [None, "stall"], True),
    ],
)
def test_value_fits_a_value_a_range_or_a_list(
    found: object, expected: object, is_fit: bool
) -> None:
    assert fits(found, expected) is is_fit


def test_difference_names_what_was_expected_and_what_was_found() -> None:
    assert list(differs("model_calls", 3, {"min": 1, "max": 2})) == [
        "model_calls: expected 1 to 2, found 3"
    ]


@pytest.mark.parametrize(
    ("pattern", "is_fit"),
    [
        (["user", "assistant:calls(c1)", "tool(c1)", "assistant:text"], True),
        (["user", "...", "assistant:text"], True),
        (["user", "assistant:calls(c1)", "tool(c1):error", "assistant:text"], True),
        (["user", "assistant:calls(c1)", "tool(c1):skipped", "assistant:text"], False),
        (["user", "assistant:text"], False),
        (["user", "assistant:calls(c1)", "tool(c1)"], False),
        (["user", "...", "user:steer", "..."], False),
    ],
)
def test_transcript_fits_its_pattern(pattern: list[str], is_fit: bool) -> None:
    found = ["user", "assistant:calls(c1)", "tool(c1):error", "assistant:text"]
    assert fits_pattern(found, pattern) is is_fit
