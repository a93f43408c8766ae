"""What a tool is: the part the model sees, the part that decides how it runs, and its function."""

import copy
import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools.docstring import argument_descriptions, description_of
from tools.output import check_output_schema
from tools.resource_keys import WORKSPACE, names_in
from tools.schema import check_schema
from tools.signature import TypedArguments, context_parameter, place_of, read_signature
from umbel.errors import Misconfigured
from umbel.names import EFFECTS, PLACEMENTS, Effect, Placement
from umbel.tool import DECLARATION_ATTRIBUTE, DEFAULT_STALL_SECONDS, ToolDeclaration

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_VERSION_CHARS: Final = 64


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool that can work: everything about it has been checked.

    `function` is called with the arguments by name, and with the `ToolContext` under the parameter
    annotated so (or named `context`), if it has one.

    Raises:
        Misconfigured: on construction, naming the tool, the fault and what to change.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any] = field(hash=False)
    function: Callable[..., object]
    effect: Effect = "mutation"
    placement: Placement = "task"
    version: str = "1"
    stall_seconds: float = DEFAULT_STALL_SECONDS
    repeatable: bool = False
    output_schema: Mapping[str, Any] | None = field(default=None, hash=False)
    """What every result fits; None: anything."""
    targets: tuple[str, ...] | None = None
    """Arguments that name what it changes; None: any text may."""
    trusted: bool = False
    """Nobody but its owner can have written what it returns."""
    resource_key: str | None = None
    """What a mutation touches, as `tools.resource_keys` reads it; None: the thread as a whole."""
    typed: TypedArguments | None = field(default=None, hash=False, compare=False, repr=False)
    """How arguments become typed values; None: the function is given plain JSON values."""
    context_name: str | None = field(init=False, compare=False, repr=False)
    """The parameter that takes the `ToolContext`."""

    def __post_init__(self) -> None:
        _check_name(self)
        _check_running(self)
        check_schema(self.input_schema, f"Tool {self.name!r}")
        if self.output_schema is not None:
            check_output_schema(self.output_schema, f"Tool {self.name!r}")
        object.__setattr__(self, "context_name", context_parameter(self.function))

    @property
    def place(self) -> str:
        """Where the function is defined, as `module:name`."""
        return place_of(self.function)

    def frozen(self) -> dict[str, Any]:
        """The JSON form that a run keeps from its acceptance on; a fresh copy every time."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": copy.deepcopy(dict(self.input_schema)),
            "effect": self.effect,
            "placement": self.placement,
            "version": self.version,
            "stall_seconds": self.stall_seconds,
            "repeatable": self.repeatable,
            **self._further(),
        }

    def _further(self) -> dict[str, Any]:
        """What not every tool says: older runs have no such keys."""
        further: dict[str, Any] = {}
        if self.output_schema is not None:
            further["output_schema"] = copy.deepcopy(dict(self.output_schema))
        if self.targets is not None:
            further["targets"] = list(self.targets)
        if self.trusted:
            further["trusted"] = True
        if self.resource_key is not None:
            further["resource_key"] = self.resource_key
        return further


def is_declared(value: object) -> bool:
    """Whether `value` is a function marked with `@umbel.tool`; any object may be asked."""
    try:
        declared = getattr(value, DECLARATION_ATTRIBUTE, None)
    except Exception:  # noqa: BLE001 -- a lazy proxy in somebody's module may raise anything
        return False
    return isinstance(declared, ToolDeclaration) and callable(value)


def from_function(function: Callable[..., object]) -> Tool:
    """The tool that a function marked with `@umbel.tool` is.

    Name, description and schema come from the function: its name, its docstring up to the first
    section, its signature, and the docstring's `Args:` section.

    Raises:
        Misconfigured: the function is not marked, has no docstring, is asynchronous, or has a
            parameter that no JSON object can fill.
    """
    place = place_of(function)
    declared = getattr(function, DECLARATION_ATTRIBUTE, None)
    if not isinstance(declared, ToolDeclaration):
        raise Misconfigured(f"Function {place!r} is no tool: mark it with @umbel.tool(...).")
    docstring = function.__doc__ or ""
    if not description_of(docstring):
        raise Misconfigured(
            f"Tool function {place!r} has no docstring: write one, it is what the model reads."
        )
    typed = read_signature(function, argument_descriptions(docstring))
    return Tool(
        name=declared.name or function.__name__,
        description=description_of(docstring),
        input_schema=typed.json_schema(),
        function=function,
        effect=declared.effect,
        placement=declared.placement,
        version=declared.version,
        stall_seconds=declared.stall_seconds,
        repeatable=declared.repeatable,
        output_schema=declared.output_schema,
        targets=None if declared.targets is None else tuple(declared.targets),
        trusted=declared.trusted,
        resource_key=declared.resource_key,
        typed=typed,
    )


def _check_name(tool: Tool) -> None:
    if not NAME.fullmatch(tool.name):
        raise Misconfigured(
            f"Tool name {tool.name!r} (from {tool.place}) cannot be used: 1 to 64 letters, digits, "
            "_ and - are allowed; set another with @umbel.tool(name=...)."
        )
    if not tool.description.strip():
        raise Misconfigured(
            f"Tool {tool.name!r} has no description: write one, it is what the model reads."
        )


def _check_running(tool: Tool) -> None:
    faults = (
        (tool.effect not in EFFECTS, f"effect {tool.effect!r} is none of {EFFECTS}"),
        (tool.placement not in PLACEMENTS, f"placement {tool.placement!r} is none of {PLACEMENTS}"),
        (
            tool.effect == "mutation" and tool.placement != "task",
            "a mutation always has placement 'task'; leave placement out, or say which milder "
            "effect it has",
        ),
        (
            not 0 < len(tool.version) <= _VERSION_CHARS,
            f"version {tool.version!r} must be a text of 1 to {_VERSION_CHARS} characters",
        ),
        (
            not _is_duration(tool.stall_seconds),
            f"stall_seconds {tool.stall_seconds!r} must be a number of seconds above 0",
        ),
        (
            bool(unknown := _unknown_targets(tool)),
            f"targets {unknown} are none of its arguments",
        ),
        (
            tool.resource_key is not None and tool.effect != "mutation",
            "only a mutation has a resource_key",
        ),
        (bool(odd := _odd_key(tool)), odd),
        (not callable(tool.function), "function cannot be called"),
        (
            _is_async(tool.function),
            "function is async; write one that returns, or yields its text in pieces",
        ),
        (
            tool.output_schema is not None and inspect.isgeneratorfunction(tool.function),
            "output_schema is for one whole value; a generator gives text in pieces",
        ),
    )
    for is_wrong, fault in faults:
        if is_wrong:
            raise Misconfigured(f"Tool {tool.name!r} (from {tool.place}): {fault}.")


def _unknown_targets(tool: Tool) -> list[str]:
    known = tool.input_schema.get("properties", {})
    return [name for name in tool.targets or () if name not in known]


def _odd_key(tool: Tool) -> str:
    """What is wrong with its resource key; empty: nothing."""
    if tool.resource_key is None:
        return ""
    try:
        names = names_in(tool.resource_key)
    except ValueError as error:
        return f"resource_key {tool.resource_key!r}: {error}; write text and {{argument}}"
    known = {*tool.input_schema.get("properties", {}), WORKSPACE}
    unknown = [name for name in names if name not in known]
    return f"resource_key names {unknown}, which are none of its arguments" if unknown else ""


def _is_duration(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value > 0
    )


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
