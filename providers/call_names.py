"""Names of tools as models write them, and as endpoints accept them."""

import re
from collections.abc import Container
from typing import Final

_REFUSED: Final = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_CHARS: Final = 64  # what OpenAI and its imitators accept


def resolve_name(written: str, known: Container[str]) -> str:
    """The offered tool that is meant, else the name as it was written.

    Template tokens behind the name (`read_file<|channel|>json`) and a namespace before it
    (`functions.read_file`, `default_api:read_file`) are dropped if what remains is an offered tool.
    """
    if written in known:
        return written
    bare = written.split("<|")[0].strip()
    if bare in known:
        return bare
    parts = [part.strip() for part in re.split(r"[:.]", bare)]
    return next((part for part in reversed(parts) if part in known), written)


def replay_name(name: str) -> str:
    """The name in a form every endpoint accepts in the history of a later request."""
    return _REFUSED.sub("_", name)[:_NAME_CHARS] or "unnamed_tool"
