"""Case files as they lie on disk, with their abbreviations written out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """One file of the format described in tests/data/cases/runs/FORMAT.md."""

    path: Path
    data: dict[str, Any]

    @property
    def number(self) -> str:
        """The three digits of the file's name, or what stands in their place."""
        return self.path.stem.partition("-")[0]

    @property
    def title(self) -> str:
        """The file's name without its ending."""
        return self.path.stem

    @property
    def model(self) -> str:
        """The model name by which the scripted server knows the case."""
        return f"case-{self.title}"

    @property
    def run(self) -> dict[str, Any]:
        """The request and its settings."""
        return dict(self.data.get("run", {}))

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The scripted tools."""
        return list(self.data.get("tools", []))

    @property
    def turns(self) -> list[dict[str, Any]]:
        """What the model answers, in order."""
        return list(self.data.get("turns", []))

    @property
    def events(self) -> list[dict[str, Any]]:
        """What happens around the run."""
        return list(self.data.get("events", []))

    @property
    def expect(self) -> dict[str, Any]:
        """What an observer must find."""
        return dict(self.data.get("expect", {}))


def load_case(path: Path) -> Case:
    """Read a case; `{"$repeat": text, "times": n, "then": tail}` becomes the text it stands for.

    Raises:
        ValueError: the file is not JSON or not an object of format 1.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or data.get("format") != 1:
        raise ValueError(f"{path.name} is no case of format 1.")
    return Case(path, _expanded(data))


def case_files(folder: Path, only: str | None = None) -> list[Path]:
    """The case files of a folder by name; with `only`, those whose name begins with it."""
    found = sorted(folder.glob("*.json"))
    return [path for path in found if only is None or path.name.startswith(only)]


def _expanded(value: Any) -> Any:
    match value:
        case {"$repeat": str(text), "times": int(times)}:
            return text * times + value.get("then", "")
        case Mapping():
            return {key: _expanded(item) for key, item in value.items()}
        case list():
            return [_expanded(item) for item in value]
        case _:
            return value
