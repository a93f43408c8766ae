"""Says what is wrong with the settings: every fault at once, each with what is allowed."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from umbel.errors import Misconfigured

_PASSWORD: Final = re.compile(r"(?<=://)([^:/@\s]*):\S*(?=@)")
_PASSWORD_OPTION: Final = re.compile(r"([?&]password=)[^&\s]*")


_SECRETS: Final = ("api_key", "flower_auth")
"""Settings whose value is never shown, not even to say what is wrong with it."""
_SHOWN_CHARS: Final = 100
_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "not a whole number"),
    **dict.fromkeys(("int_parsing_size",), "a number with too many digits"),
    **dict.fromkeys(("float_type", "float_parsing"), "not a number"),
    **dict.fromkeys(("list_type", "tuple_type"), "not a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), "not a table"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "neither true nor false"),
    "string_type": "not a text",
    "string_too_short": "too short; {min_length} characters at least",
    "string_too_long": "too long; {max_length} characters at most",
    "string_pattern_mismatch": "not a name",
    "finite_number": "not a finite number",
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be {le:g} or less",
    "literal_error": "choose one of {expected}",
}
"""Kinds of faults that pydantic knows, in words for whoever writes the settings."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Put on a field with `Annotated`: the values it takes, in words."""

    text: str


@dataclass(frozen=True, slots=True)
class KeysOf:
    """Put on a table with `Annotated`: the class whose fields its keys are."""

    model: type[BaseModel]


def without_password(url: str) -> str:
    """The address with `***` in place of a password."""
    return _PASSWORD_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***", url))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the closest known name, or nothing."""
    closest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean {closest[0]!r}?" if closest else ""


def misconfigured(faults: Iterable[str]) -> Misconfigured:
    """The one error that lists every fault, a line each."""
    lines = list(faults)
    count = "One setting is wrong" if len(lines) == 1 else f"{len(lines)} settings are wrong"
    return Misconfigured("\n".join([f"{count}; nothing was started.", *(f"  {x}" for x in lines)]))


def describe(
    error: ValidationError, model: type[BaseModel], places: Mapping[str, str]
) -> list[str]:
    """One line per fault that pydantic found.

    Args:
        error: what validation raised.
        model: the class that was validated; its `Allowed` marks say what is allowed.
        places: for each top-level field the name under which its value was given.
    """
    return [_line(details, model, places) for details in error.errors(include_url=False)]


def compact(error: ValidationError) -> str:
    """All faults of a nested value in one line."""
    return "; ".join(
        f"{'.'.join(map(str, details['loc']))}: {_reason(details)}"
        for details in error.errors(include_url=False)
    )


def _line(details: ErrorDetails, model: type[BaseModel], places: Mapping[str, str]) -> str:
    field, *inner = (str(part) for part in details["loc"])
    place = places.get(field, field)
    # "agents" in umbel.toml is a table: its own keys belong to the name.
    name = place.replace(field, ".".join([field, *inner]), 1) if inner else place
    if details["type"] == "extra_forbidden":
        *way, key = (field, *inner)
        return f"{name} is unknown.{did_you_mean(key, _keys(model, way))}"
    marks = model.model_fields[field].metadata if field in model.model_fields else []
    allowed = next((mark.text for mark in marks if isinstance(mark, Allowed)), None)
    ending = f" Allowed: {allowed}." if allowed is not None and not inner else ""
    return f"{name}{_shown(field, details['input'])}: {_reason(details)}.{ending}"


def _reason(details: ErrorDetails) -> str:
    """What is wrong in our own words; the library's only for a kind of fault we do not know."""
    words = _WORDS.get(details["type"])
    if words is not None:
        return words.format(**details.get("ctx", {}))
    text = details["msg"].removeprefix("Value error, ").rstrip(".")
    return text[:1].lower() + text[1:]


def _shown(field: str, value: Any) -> str:
    """` is 'value'`; nothing for a table, of which only a part is wrong."""
    if field in _SECRETS:
        return " is given but not usable"
    if isinstance(value, Mapping | BaseModel):
        return ""
    shown = without_password(repr(value))
    return f" is {shown if len(shown) <= _SHOWN_CHARS else shown[: _SHOWN_CHARS - 1] + '…'}"


def _keys(model: type[BaseModel], way: Iterable[str]) -> list[str]:
    """The keys of the table that is reached by this way from the model."""
    here: type[BaseModel] | None = model
    for key in way:
        field = here.model_fields.get(key) if here is not None else None
        if field is not None:
            here = _table_of(field)
    return list(here.model_fields) if here is not None else []


def _table_of(field: FieldInfo) -> type[BaseModel] | None:
    """The class of a table's keys, or of the tables in a table; the names of those are free."""
    for mark in field.metadata:
        if isinstance(mark, KeysOf):
            return mark.model
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
