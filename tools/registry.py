"""Which tools exist: the built-in ones, those of installed packages, those of named modules."""

import hashlib
import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Final

from tools.builtin import BUILTIN
from tools.definition import Tool, from_function, is_declared
from tools.failure import failure_of
from umbel.errors import Misconfigured
from umbel.strict_json import canonical

ENTRY_POINT_GROUP: Final = "umbel.tools"


class ToolRegistry:
    """Tools by name; never changes after it is built."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Keep the tools; the same function met twice is one tool.

        Raises:
            Misconfigured: two different tools have one name; names both places.
        """
        found: dict[str, Tool] = {}
        for tool in tools:
            other = found.setdefault(tool.name, tool)
            if other.function is not tool.function:
                raise Misconfigured(
                    f"Two tools are named {tool.name!r}: {other.place} and {tool.place}. Rename "
                    "one with @umbel.tool(name=...), or load only one of them."
                )
        self._tools: Mapping[str, Tool] = dict(sorted(found.items()))

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)

    def names(self) -> tuple[str, ...]:
        """Every name, sorted."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool:
        """The tool of that name.

        Raises:
            Misconfigured: this process has none.
        """
        try:
            return self._tools[name]
        except KeyError:
            raise Misconfigured(
                f"Tool {name!r} is not registered in this process: install its package, or name "
                "its module in UMBEL_TOOLS."
            ) from None

    def select(self, allow: Sequence[str] | None) -> tuple[Tool, ...]:
        """The allowed tools in the order of `allow`; None allows all, an empty list none.

        Raises:
            Misconfigured: a name that is not registered.
        """
        if allow is None:
            return tuple(self._tools.values())
        missing = [name for name in allow if name not in self._tools]
        if missing:
            raise Misconfigured(
                f"Allowed tools {missing} are not registered; there are: "
                f"{', '.join(self._tools)}. Correct the list, or name the tool's module in "
                "UMBEL_TOOLS."
            )
        return tuple(self._tools[name] for name in dict.fromkeys(allow))

    def digests(self) -> tuple[str, ...]:
        """What tells each tool from every other version of it, in the order of the names."""
        return tuple(digest_of(tool.frozen()) for tool in self._tools.values())

    def differing(self, frozen: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Names of a run's frozen tools that this process lacks or knows differently."""
        return tuple(
            tool["name"]
            for tool in frozen
            if tool["name"] not in self._tools or self._tools[tool["name"]].frozen() != tool
        )


def digest_of(frozen: Mapping[str, Any]) -> str:
    """A short name for a tool as a run freezes it: the same only for the same tool."""
    return hashlib.sha256(canonical(dict(frozen)).encode()).hexdigest()[:16]


def load_registry(modules: Sequence[str]) -> ToolRegistry:
    """The built-in tools, those of the entry points `umbel.tools`, and those of `modules`.

    A module gives its functions marked with `@umbel.tool`, its `Tool` objects, and what it lists
    under `TOOLS`. Importing runs the modules' code.

    Raises:
        Misconfigured: a module that cannot be imported or has no tool, a tool that cannot work, or
            two tools of one name.
    """
    found = [from_function(function) for function in BUILTIN]
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        place = f"entry point {point.name!r} ({point.value})"
        found.extend(_tools_of(_load(point.load, place), place))
    for name in dict.fromkeys(name.strip() for name in modules if name.strip()):
        place = f"module {name!r}"
        found.extend(
            _tools_of(_load(lambda name=name: importlib.import_module(name), place), place)
        )
    return ToolRegistry(found)


def _load(load: Any, place: str) -> object:
    try:
        return load()
    except (Exception, SystemExit) as error:  # a module's own code may raise anything
        remedy = "Correct the module"
        if isinstance(error, ModuleNotFoundError) and repr(error.name) in place:
            remedy = "Install its package, or put its folder on PYTHONPATH,"
        raise Misconfigured(
            f"Tools of {place} cannot be loaded: {failure_of(error).message}. {remedy} "
            "or take it out of UMBEL_TOOLS."
        ) from error


def _tools_of(loaded: object, place: str) -> Iterator[Tool]:
    found = list(_scan(loaded) if isinstance(loaded, ModuleType) else _listed(loaded, place))
    if not found:
        raise Misconfigured(
            f"There is no tool in {place}: mark a function with @umbel.tool(...), or list Tool "
            "objects under TOOLS."
        )
    yield from found


def _scan(module: ModuleType) -> Iterator[Tool]:
    for name, value in vars(module).items():
        if name == "TOOLS":
            yield from _listed(value, f"{module.__name__}.TOOLS")
        elif issubclass(type(value), Tool):  # isinstance would wake lazy proxies
            yield value
        elif is_declared(value):
            yield from_function(value)


def _listed(value: object, place: str) -> Iterator[Tool]:
    if isinstance(value, Tool):
        yield value
    elif is_declared(value):
        yield from_function(value)  # type: ignore[arg-type]  # is_declared says it is callable
    elif isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        for item in value:
            yield from _listed(item, place)
    else:
        raise Misconfigured(
            f"{place} holds a {type(value).__name__}, which is no tool: put functions marked with "
            "@umbel.tool(...) or Tool objects there."
        )
