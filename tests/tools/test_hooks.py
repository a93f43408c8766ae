"""A check that is configured is there, or the process does not start."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.hooks import load_hooks
from umbel.errors import Misconfigured

HOOKS = """
from umbel.preflight import Cleared, Denied

def first(call):
    return Denied("first", "No.")

def second(call):
    return Cleared(call.arguments_text)

number = 7
"""
POINTS = "[umbel.preflight]\nlast = odd_checks:second\nearly = odd_checks:first\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path with a module of hooks."""
    (tmp_path / "odd_checks.py").write_text(HOOKS)
    (tmp_path / "odd_broken.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("odd_checks", "odd_broken"):
        sys.modules.pop(name, None)


def names(*given: str) -> list[str]:
    return [hook.__name__ for hook in load_hooks(given)]  # type: ignore[attr-defined]  # functions


@pytest.mark.usefixtures("folder")
def test_hooks_are_asked_in_the_order_in_which_they_are_named() -> None:
    assert names() == []
    assert names("odd_checks:second", "odd_checks:first") == ["second", "first"]


def test_hooks_of_installed_packages_come_first_by_name(folder: Path) -> None:
    about = folder / "acme-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    assert names("odd_checks:first") == ["first", "second", "first"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "name",
    [
        "odd_gone:check",
        "odd_checks:gone",
        "odd_checks:number",
        "odd_checks",
        "odd_broken:x",
        "?",
    ],
)
def test_a_hook_that_cannot_be_used_stops_the_start(name: str) -> None:
    with pytest.raises(Misconfigured, match="UMBEL_PREFLIGHT"):
        load_hooks([name])
