import pytest

from umbel.cli.safe_text import one_line, safe


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain — ünïcode 日本 🙂", "plain — ünïcode 日本 🙂"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("windows\r\nlines", "windows\nlines"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("over\rwritten", "over\\x0dwritten"),
        ("c1 \x9b31m", "c1 \\x9b31m"),
        ("rm \u202etxt.a", "rm \\u202etxt.a"),
        ("nul \x00", "nul \\x00"),
    ],
)
def test_only_what_could_harm_a_terminal_is_escaped(given: str, shown: str) -> None:
    assert safe(given) == shown


def test_one_line_joins_and_cuts() -> None:
    assert one_line("a\n  b\tc") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == "abcd"
