"""Says what is wrong with the settings: every fault at once, each with what is allowed."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from umbel.errors import Misconfigured

_PASSWORD: Final = re.compile(r"(?<=://)([^:/@\s]*):\S*(?=@)")
_PASSWORD_OPTION: Final = re.compile(r"([?&]password=)[^&\s]*")


@dataclass(frozen=True, slots=True)
class Allowed:
    """Put on a field with `Annotated`: the values it takes, in words."""

    text: str


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
        return f"{name} is unknown.{_suggest(model, field, inner)}"
    marks = model.model_fields[field].metadata if field in model.model_fields else []
    allowed = next((mark.text for mark in marks if isinstance(mark, Allowed)), None)
    ending = f" Allowed: {allowed}." if allowed is not None and not inner else ""
    return f"{name} is {_shown(field, details['input'])}: {_reason(details)}.{ending}"


def _reason(details: ErrorDetails) -> str:
    text = details["msg"].removeprefix("Value error, ").rstrip(".")
    return text[:1].lower() + text[1:]


def _shown(field: str, value: Any) -> str:
    if "key" in field:
        return "given but not usable"
    return without_password(repr(value))


def _suggest(model: type[BaseModel], field: str, inner: list[str]) -> str:
    if not inner:
        return did_you_mean(field, model.model_fields)
    nested = next(
        (
            kind
            for kind in getattr(model.model_fields[field].annotation, "__args__", ())
            if isinstance(kind, type) and issubclass(kind, BaseModel)
        ),
        None,
    )
    return did_you_mean(inner[-1], nested.model_fields) if nested is not None else ""
