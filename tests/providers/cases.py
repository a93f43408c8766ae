"""Recorded answers of endpoints as test inputs: `tests/data/cases/provider`, README there.

A folder of another wire than Chat Completions names it in a file `wire-api`.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from loop.request import OfferedTool
from providers.chat import ChatProvider
from providers.http_provider import HttpProvider
from providers.normalise import RequestFacts
from providers.responses import ResponsesProvider

CASES: Final = Path(__file__).parents[1] / "data" / "cases"
FOLDER: Final = CASES / "provider"
FOLDERS: Final = (FOLDER, CASES / "provider-own", CASES / "responses")
_PROVIDERS: Final[dict[str, type[HttpProvider]]] = {
    "chat": ChatProvider,
    "responses": ResponsesProvider,
}


@dataclass(frozen=True)
class Case:
    """One folder of recorded bytes and the result wanted."""

    path: Path
    offered: tuple[OfferedTool, ...]
    provider: type[HttpProvider] = ChatProvider
    """The adapter that reads it."""

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def expect(self) -> dict[str, Any]:
        """The wanted result, in the form of expect.json."""
        return _read(self.path / "expect.json")

    @cached_property
    def replay(self) -> dict[str, Any]:
        """Transport behaviour; empty for a plain answer."""
        path = self.path / "replay.json"
        return _read(path) if path.exists() else {}

    @cached_property
    def wire(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer."""
        stream = self.path / "wire.sse"
        if stream.exists():
            headers = {"content-type": "text/event-stream", **self.replay.get("headers", {})}
            return 200, headers, stream.read_bytes()
        plain = _read(self.path / "wire.json")
        text = plain["body_text"] if "body_text" in plain else json.dumps(plain["body"])
        return plain["status"], plain.get("headers", {}), text.encode()

    @property
    def facts(self) -> RequestFacts:
        """What the request said, where it matters."""
        request = self.expect.get("request") or {}
        used = frozenset(request.get("ids_already_used") or ())
        return RequestFacts(max_tokens=request.get("max_tokens"), ids_already_used=used)


def read_cases(folder: Path = FOLDER) -> list[Case]:
    """Every case of a folder, by name; the tools offered are the folder's or our own copy's."""
    tools = folder / "tools.json"
    offered = read_tools(tools if tools.exists() else FOLDER / "tools.json")
    found = (path for path in sorted(folder.iterdir()) if (path / "expect.json").exists())
    wire = folder / "wire-api"
    provider = _PROVIDERS[wire.read_text().strip() if wire.exists() else "chat"]
    return [Case(path, offered, provider) for path in found]


def read_every_case() -> list[Case]:
    """The cases of all our folders."""
    return [case for folder in FOLDERS for case in read_cases(folder)]


def read_tools(path: Path) -> tuple[OfferedTool, ...]:
    """Tools in the wire form as our own."""
    functions = [item["function"] for item in _read_list(path)]
    return tuple(OfferedTool(f["name"], f["description"], f["parameters"]) for f in functions)


def _read(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text("utf-8"))
    assert isinstance(value, dict), path
    return value


def _read_list(path: Path) -> list[dict[str, Any]]:
    value = json.loads(path.read_text("utf-8"))
    assert isinstance(value, list), path
    return value
