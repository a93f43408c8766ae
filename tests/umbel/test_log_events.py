"""docs/logs.md lists every event that the product logs, with its level and fields."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import pytest

from tasks import log_celery
from umbel.log_line import LogLine

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("tasks", "scheduler", "models", "locks", "providers", "tools", "loop", "umbel")
LEVELS: Final = {
    name: ("ERROR" if name == "exception" else name.upper())
    for name in ("debug", "info", "warning", "error", "exception", "critical")
}
DOCUMENT: Final = (ROOT / "docs/logs.md").read_text()


@dataclass(frozen=True, order=True)
class Event:
    """One `log.level("message", extra={...})`."""

    message: str
    level: str
    fields: tuple[str, ...]
    place: str = ""


def _events(path: Path) -> Iterator[Event]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="log" | "_log" | "logger"), attr=level),
                args=arguments,
                keywords=keywords,
            ) if level in LEVELS:
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                yield Event(_message(arguments, place), LEVELS[level], _fields(keywords), place)
            case _:
                continue


def _message(arguments: list[ast.expr], place: str) -> str:
    match arguments:
        case [ast.Constant(value=str(message))]:
            return message
        case _:
            pytest.fail(f"{place}: a message is one static text; what varies belongs into extra")


def _fields(keywords: list[ast.keyword]) -> tuple[str, ...]:
    extra = next((k.value for k in keywords if k.arg == "extra"), ast.Dict(keys=[], values=[]))
    assert isinstance(extra, ast.Dict)
    return tuple(sorted(str(ast.literal_eval(key)) for key in extra.keys if key is not None))


def _logged() -> list[Event]:
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return [event for path in paths for event in _events(path)]


def _documented() -> set[tuple[str, str, tuple[str, ...]]]:
    rows = re.findall(r"^\| `([^`]+)` \| ([A-Z]+) \| ([^|]+) \|", DOCUMENT, re.MULTILINE)
    return {(row[0], row[1], tuple(sorted(re.findall("`([^`]+)`", row[2])))) for row in rows}


def test_the_document_lists_every_event_with_level_and_fields() -> None:
    logged = {(event.message, event.level, event.fields) for event in _logged()}
    assert logged == _documented()


def test_a_field_has_no_name_that_every_line_has_already() -> None:
    taken = {field.name for field in fields(LogLine)}
    wrong = [event for event in _logged() if taken & set(event.fields)]
    assert not wrong


def test_the_document_lists_every_refusal_of_celery() -> None:
    told = {*log_celery._REFUSED.values(), log_celery._ANY_REFUSAL}
    assert told == set(re.findall(r"^\| `(message [^`]*)` \| [^|A-Z]+ \|$", DOCUMENT, re.MULTILINE))
