"""Results checked against what their tool promised, before they are stored."""

import json
from collections.abc import Mapping
from typing import Any, Final

from jsonschema.exceptions import SchemaError
from referencing.exceptions import Unresolvable

from tools.schema import compiled
from umbel.errors import Misconfigured
from umbel.strict_json import InvalidJson

_SHOWN_CHARS: Final = 200


def check_output_schema(schema: Mapping[str, Any], owner: str) -> None:
    """Do nothing if `schema` can check results.

    Raises:
        Misconfigured: it is no JSON Schema.
    """
    try:
        validator = compiled(schema)
        validator.check_schema(dict(schema))
    except (SchemaError, InvalidJson, TypeError) as error:
        raise Misconfigured(f"{owner}: output_schema is no JSON Schema: {error}") from error


def output_problem(schema: Mapping[str, Any], text: str) -> str | None:
    """What is wrong with a result, in words; None if it fits.

    Args:
        schema: one that `check_output_schema` accepts.
        text: the encoded result.
    """
    try:
        fault = next(compiled(schema).iter_errors(json.loads(text)), None)
    except (Unresolvable, RecursionError):
        return "its own output schema cannot be evaluated"
    if fault is None:
        return None
    where = "/".join(str(part) for part in fault.absolute_path) or "the result"
    return f"{where}: {fault.message[:_SHOWN_CHARS]}"
