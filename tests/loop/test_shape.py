"""The loop stays readable and pure: watched, because nobody notices one line at a time."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOOP_FILES = sorted((ROOT / "loop").glob("*.py"))
MOST_LINES = 40

ALLOWED_IMPORTS = {
    "collections",
    "hashlib",
    "itertools",
    "json",
    "unicodedata",
    "dataclasses",
    "typing",
    "pydantic",
    "loop",
    "umbel.contracts",
    "umbel.errors",
    "umbel.names",
}
FORBIDDEN_CALLS = {"open", "print", "input", "exec", "eval", "compile", "__import__"}


def functions_of(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def imports_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


@pytest.mark.parametrize("path", [ROOT / "loop/decide.py", ROOT / "tasks/step.py"], ids=str)
def test_functions_of_the_loop_fit_on_a_screen(path: Path) -> None:
    too_long = {name: lines for name, lines in functions_of(path) if lines > MOST_LINES}
    assert not too_long
    assert path.name != "decide.py" or "decide" in dict(functions_of(path))


@pytest.mark.parametrize("path", LOOP_FILES, ids=lambda path: path.name)
def test_the_loop_imports_no_clock_no_chance_and_no_io(path: Path) -> None:
    tree = ast.parse(path.read_text())
    foreign = {
        name
        for name in imports_of(tree)
        if name not in ALLOWED_IMPORTS and name.partition(".")[0] not in ALLOWED_IMPORTS
    }
    assert not foreign
    calls = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & FORBIDDEN_CALLS


def test_the_loop_knows_no_profile_by_name() -> None:
    texts = {path.name: path.read_text() for path in LOOP_FILES if path.name != "profiles.py"}
    for name in ("steward", "scholar", "orchestrator"):
        assert not [file for file, text in texts.items() if name in text]


@pytest.mark.parametrize("module", ["loop.decide", "loop.transcript", "umbel", "umbel.testing"])
def test_importing_it_loads_no_server_library(module: str) -> None:
    heavy = ("celery", "kombu", "redis", "sqlalchemy", "psycopg", "openai", "gevent", "httpx2")
    program = f"import sys, {module}\nprint(*[name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == []
