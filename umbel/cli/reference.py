"""`python -m umbel.cli.reference FILE`: writes the tables of docs/configuration.md from the code.

What a setting is called, takes and means stands in one place: on its field. A table of the
document stands between `<!-- table NAME -->` and `<!-- end -->`; everything else is left alone.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from loop.policy import Policy
from loop.profiles import PROFILES
from umbel.agent_settings import DEFAULT_INSTRUCTIONS, AgentSettings, ModelSettings
from umbel.cli import exits
from umbel.settings import Settings
from umbel.settings_faults import Allowed
from umbel.settings_sources import FILE_ONLY, variable_of

_NOT_SET: Final = "not set"
_OF_THIS_MACHINE: Final = "of this machine"
_NAMED: Final = {
    _OF_THIS_MACHINE: _OF_THIS_MACHINE,
    DEFAULT_INSTRUCTIONS: "those of a careful assistant",
}
"""Defaults that are described instead of shown."""
_ELSEWHERE: Final = ("version", "permission_mode")
"""Policy values that nobody sets: one is the format's, the other is `permission` of the agent."""
_KINDS: Final[Mapping[object, str]] = {
    bool: "`true`, `false`",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "a list of texts",
    Mapping: "a table",
}
_PLACE: Final = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(document: str) -> str:
    """The document with every table as the code has it now.

    Raises:
        KeyError: a table is asked for that does not exist.
    """
    return _PLACE.sub(lambda found: f"{found[1]}{_TABLES[found[2]]()}{found[3]}", document)


def main(arguments: list[str]) -> int:
    """Rewrite the named files; returns an exit code."""
    for name in arguments:
        path = Path(name)
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
    return exits.COMPLETED


def _settings() -> str:
    rows = (
        (f"`{variable_of(name)}`", _default(field), _takes(field), _meaning(field))
        for name, field in Settings.model_fields.items()
        if name not in FILE_ONLY
    )
    return _table(("variable", "default", "takes", "meaning"), rows)


def _keys_of(model: type[BaseModel], *, without: Iterable[str] = ()) -> Callable[[], str]:
    def table() -> str:
        rows = (
            (f"`{name}`", _default(field), _takes(field), _meaning(field))
            for name, field in model.model_fields.items()
            if name not in without
        )
        return _table(("key", "default", "takes", "meaning"), rows)

    return table


def _profiles() -> str:
    """What each profile says differently from the defaults of the policy table."""
    rows = (
        (f"`{name}`", ", ".join(f"`{key} = {value}`" for key, value in values.items()) or "nothing")
        for name, values in PROFILES.items()
    )
    return _table(("profile", "differs from the defaults in"), rows)


_TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "settings": _settings,
    "agents": _keys_of(AgentSettings),
    "models": _keys_of(ModelSettings),
    "policy": _keys_of(Policy, without=_ELSEWHERE),
    "profiles": _profiles,
}


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _meaning(field: FieldInfo) -> str:
    return " ".join((field.description or "").split()).rstrip(".")


def _default(field: FieldInfo) -> str:
    value: object = field.default
    if field.default_factory is not None:
        # Made when a process starts: empty, or something that differs between machines.
        made: object = field.get_default(call_default_factory=True, validated_data={})
        value = _OF_THIS_MACHINE if made else ()
    match value:
        case None:
            return _NOT_SET
        case ():
            return "none"
        case str() if value in _NAMED:
            return _NAMED[value]
        case bool():
            return f"`{str(value).lower()}`"
        case _:
            return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _takes(field: FieldInfo) -> str:
    """What the field's mark says, else what its type and bounds say."""
    for mark in field.metadata:
        if isinstance(mark, Allowed):
            return mark.text
    for kind in (field.annotation, *get_args(field.annotation)):
        if words := _of_kind(kind):
            return words + _bounds(field)
    raise TypeError(f"{field.annotation!r} has no words yet; mark the field with `Allowed`.")


def _of_kind(kind: object) -> str | None:
    match get_origin(kind) or kind:
        case origin if origin is Literal:
            return ", ".join(f"`{value}`" for value in get_args(kind))
        case origin if origin in _KINDS:
            return _KINDS[origin]
        case _:
            return None


def _bounds(field: FieldInfo) -> str:
    """`, 1 to 64`, `, 1 or more`, ` above 0`, or nothing."""
    lowest = next((f"{mark.ge:,}" for mark in field.metadata if isinstance(mark, Ge)), None)
    highest = next((f"{mark.le:,}" for mark in field.metadata if isinstance(mark, Le)), None)
    above = next((f" above {mark.gt:,}" for mark in field.metadata if isinstance(mark, Gt)), "")
    if lowest is None:
        return above
    return f", {lowest} to {highest}" if highest else f", {lowest} or more"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
