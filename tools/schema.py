"""JSON Schemas of tools: checked once at registration, compiled once, never fetched from anywhere.

Stricter than the specification in one point: an `integer` is an integer, so that `1.0` is told to
the model instead of reaching a function that expects an int. A pattern is run by Python's `re`: a
costly one is the tool author's own fault and is not guarded against.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import referencing
from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from referencing.exceptions import Unresolvable

from umbel import strict_json
from umbel.errors import InvalidInput, Misconfigured

_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
"""Keywords that hold data, in which nothing is a reference."""
_REFERENCES: Final = ("$ref", "$dynamicRef")


def _is_integer(_checker: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _unique_items(
    _validator: object, is_wanted: object, items: object, _schema: object
) -> Iterator[ValidationError]:
    """As the specification says, in linear time: jsonschema compares objects pair by pair."""
    if is_wanted is True and isinstance(items, list):
        texts = {strict_json.canonical(_merged_numbers(item)) for item in items}
        if len(texts) != len(items):
            yield ValidationError("has items that are equal")


def _merged_numbers(value: strict_json.Json) -> strict_json.Json:
    """The value with `1.0` written as `1`: to a JSON Schema they are one number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_merged_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _merged_numbers(item) for key, item in value.items()}
    return value


_Strict: Final[type[Validator]] = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    validators={"uniqueItems": _unique_items},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


def compiled(schema: Mapping[str, Any]) -> Validator:
    """The validator of a schema, built once per schema text and process; safe to share."""
    return _compile(strict_json.dump(dict(schema)))


@lru_cache(maxsize=1024)
def _compile(schema_text: str) -> Validator:
    schema = _without_dialect(strict_json.parse(schema_text))
    # An empty registry: the default one would fetch unknown references over the network.
    validator: Validator = _Strict(schema, registry=referencing.Registry())
    return validator


def check_schema(schema: Mapping[str, Any], owner: str) -> None:
    """Do nothing if `schema` can check arguments.

    Args:
        schema: a JSON Schema (draft 2020-12) of an object.
        owner: what the message names, such as "Tool 'send_mail'".

    Raises:
        Misconfigured: not JSON, not a schema, not of an object, or it refers to another document.
    """
    try:
        strict_json.parse(strict_json.dump(dict(schema)))
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise Misconfigured(
            f"{owner}: input_schema is no valid JSON Schema at {error.json_path}: "
            f"{error.message[:200]}. Correct it there."
        ) from error
    except (TypeError, ValueError, InvalidInput) as error:
        raise Misconfigured(
            f"{owner}: input_schema is not plain JSON ({error}). Use dicts, lists, strings and "
            "numbers only."
        ) from error
    if schema.get("type") != "object":
        raise Misconfigured(
            f'{owner}: input_schema must say "type": "object"; arguments are always an object.'
        )
    _check_references(schema, owner)


def _check_references(schema: Mapping[str, Any], owner: str) -> None:
    for reference in _references(schema):
        if not reference.startswith("#"):
            raise Misconfigured(
                f"{owner}: input_schema refers to {reference!r}; nothing is fetched, so put the "
                "definition into the schema itself, under $defs."
            )
    try:
        next(compiled(schema).iter_errors({}), None)
        _resolve_all(schema)
    except (Unresolvable, RecursionError) as error:
        raise Misconfigured(
            f"{owner}: input_schema holds a reference that leads nowhere or to itself; correct "
            "its $ref."
        ) from error


def _resolve_all(schema: Mapping[str, Any]) -> None:
    resource = referencing.Resource.from_contents(
        schema, default_specification=referencing.jsonschema.DRAFT202012
    )
    resolver = referencing.Registry().resolver_with_root(resource)
    for reference in _references(schema):
        resolver.lookup(reference)


def _references(node: object) -> Iterator[str]:
    """Every reference in a schema, whatever its depth."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key in _REFERENCES and isinstance(value, str):
                yield value
            elif key not in _VALUES:
                yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _without_dialect(node: strict_json.Json) -> Any:
    """The schema without `$schema`: a named dialect would bring back its own, looser integers."""
    if isinstance(node, dict):
        return {
            key: value if key in _VALUES else _without_dialect(value)
            for key, value in node.items()
            if not (key == "$schema" and isinstance(value, str))
        }
    if isinstance(node, list):
        return [_without_dialect(value) for value in node]
    return node
