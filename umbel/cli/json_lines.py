"""JSON for programs: one object a line, flushed at once."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import IO

from umbel.cli.plain_output import output_closed


def write_json(out: IO[str], facts: Mapping[str, object]) -> None:
    """Write one object; times become ISO 8601 text, in UTC."""
    line = json.dumps(facts, ensure_ascii=False, default=_as_text)
    # A lone surrogate cannot be written as UTF-8; as a JSON escape it can.
    try:
        out.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
        out.flush()
    except BrokenPipeError:
        output_closed()


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form")
