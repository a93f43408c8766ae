"""Arguments checked against a tool's schema, with complaints a model can act on.

Nothing is coerced: the bytes that were proposed are the bytes that are approved and sent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from jsonschema import ValidationError
from referencing.exceptions import Unresolvable

from tools.schema import compiled
from umbel import strict_json
from umbel.strict_json import Json

MAX_PROBLEMS: Final = 3
_SHOWN_CHARS: Final = 120
_PATH_CHARS: Final = 200
_TYPE_NAMES: Final = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}
_BOUNDS: Final = {
    "minimum": "must be at least",
    "maximum": "must be at most",
    "exclusiveMinimum": "must be greater than",
    "exclusiveMaximum": "must be less than",
    "multipleOf": "must be a multiple of",
    "minLength": "must have at least this many characters:",
    "maxLength": "must have at most this many characters:",
    "minItems": "must have at least this many items:",
    "maxItems": "must have at most this many items:",
    "minProperties": "must have at least this many keys:",
    "maxProperties": "must have at most this many keys:",
    "pattern": "must match the pattern",
    "const": "must be",
    "uniqueItems": "must have no equal items:",
    "enum": "must be one of",
}


@dataclass(frozen=True, slots=True)
class ArgumentProblems:
    """Why arguments cannot be used: one to three short sentences for the model."""

    problems: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(f"{problem}." for problem in self.problems)


def check_arguments(
    tool_schema: Mapping[str, Any], arguments_text: str
) -> dict[str, Json] | ArgumentProblems:
    """The arguments as a dict if they fit the schema exactly, else what is wrong with them.

    Args:
        tool_schema: a schema that `tools.schema.check_schema` accepts.
        arguments_text: JSON text.
    """
    try:
        value = strict_json.parse(arguments_text)
    except strict_json.InvalidJson as error:
        return ArgumentProblems((f"The arguments are refused: {str(error)[:300]}",))
    if not isinstance(value, dict):
        return ArgumentProblems(
            (f"The arguments must be a JSON object, not {_TYPE_NAMES[type(value)]}",)
        )
    try:
        problems = tuple(islice(_problems(tool_schema, value), MAX_PROBLEMS))
    except (Unresolvable, RecursionError):
        problems = ("The tool's own schema cannot be evaluated; use another tool",)
    return ArgumentProblems(problems) if problems else value


def _problems(schema: Mapping[str, Any], value: dict[str, Json]) -> Iterator[str]:
    seen: set[str] = set()
    for error in compiled(schema).iter_errors(value):
        problem = f"{_path_of(error)}: {_complaint(error)}"
        if problem not in seen:
            seen.add(problem)
            yield problem


def _path_of(error: ValidationError) -> str:
    """Where the fault is, such as `items[2].price`."""
    path = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
    )
    return path.removeprefix(".")[:_PATH_CHARS] or "arguments"


def _complaint(error: ValidationError) -> str:
    rule = str(error.validator)
    expected: Any = error.validator_value  # jsonschema leaves it open: a schema's own value
    instance: Any = error.instance
    match rule:
        case "type":
            return (
                f"{_shown(error.instance)} is {_kind(error.instance)}, expected {_types(expected)}"
            )
        case "required":
            missing = [name for name in expected if name not in instance]
            return f"missing {_shown(missing)}"
        case "additionalProperties" | "unevaluatedProperties":
            return _unexpected_keys(error)
        case "anyOf" | "oneOf":
            return _alternatives(error)
        case _ if rule in _BOUNDS:
            return f"{_shown(error.instance)} {_BOUNDS[rule]} {_shown(expected)}"
        case _:
            return f"{_shown(error.instance)} breaks the rule {_shown({rule: expected})}"


def _kind(value: object) -> str:
    return _TYPE_NAMES.get(type(value), "of another type")


def _types(expected: object) -> str:
    names = expected if isinstance(expected, list) else [expected]
    return " or ".join(str(name) for name in names)


def _unexpected_keys(error: ValidationError) -> str:
    instance: Any = error.instance
    known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
    extra = [name for name in instance if name not in known]
    return f"unexpected {_shown(extra)}; allowed: {_shown(list(known))}"


def _alternatives(error: ValidationError) -> str:
    """What the alternatives ask for: their types, or the first complaint that goes deeper."""
    deeper, kinds = [], []
    for inner in error.context or ():
        if inner.validator == "type" and not inner.relative_path:
            kinds.append(_types(inner.validator_value))
        else:
            deeper.append(inner)
    if deeper:
        first = deeper[0]
        where = f"{_path_of_relative(first)}: " if first.relative_path else ""
        return f"fits none of the allowed forms; the closest: {where}{_complaint(first)}"
    if kinds:
        return f"{_shown(error.instance)} is {_kind(error.instance)}, expected {' or '.join(kinds)}"
    return f"{_shown(error.instance)} fits more than one of the allowed forms"


def _path_of_relative(error: ValidationError) -> str:
    return ".".join(str(part) for part in error.relative_path)[:_PATH_CHARS]


def _shown(value: object) -> str:
    """The value as JSON, cut: a complaint must stay short whatever was sent."""
    text = strict_json.dump(value)  # type: ignore[arg-type]  # comes from JSON, by construction
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
