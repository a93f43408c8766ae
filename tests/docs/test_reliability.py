"""The page of promises names tests that exist and the rules as the code has them."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

from models.invariants import INVARIANTS, Invariant

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "reliability.md").read_text()
NAMED: Final = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


@cache
def functions_of(path: str) -> set[str]:
    """The test functions of a file; empty when there is no such file."""
    file = ROOT / path
    if not file.exists():
        return set()
    tree = ast.parse(file.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_page_names_exists() -> None:
    assert NAMED
    assert [f"{path}::{name}" for path, name in NAMED if name not in functions_of(path)] == []


def test_every_promise_names_a_test() -> None:
    promises = re.findall(r"^### (P\d+)\. .*?$(.*?)(?=^##)", PAGE, re.DOTALL | re.MULTILINE)
    assert [name for name, _ in promises] == [f"P{number}" for number in range(1, 12)]
    assert [name for name, text in promises if "::test_" not in text] == []


def test_the_rules_of_the_record_are_those_that_are_checked() -> None:
    table = PAGE.partition("## Invariants")[2].partition("\n## ")[0]
    shown = [line for line in table.splitlines() if line.startswith("| `")]
    assert shown == [_row(invariant) for invariant in INVARIANTS]


def _row(invariant: Invariant) -> str:
    at_rest = " (at rest)" if invariant.only_at_rest else ""
    return f"| `{invariant.name}`{at_rest} | {invariant.broken} | {invariant.means} |"
