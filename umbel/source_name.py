"""How sources are named: `kind:id`, such as `file:/srv/plans/a.md` or `page:https://example.org/`.

A source is whatever a result rests on and may change later. Tools name the sources of their results
(`umbel.tool.ToolContext.source`); whoever hears that one has changed says so under the same name.
"""

import re
from dataclasses import dataclass
from typing import Final

from umbel.errors import InvalidInput

MAX_NAME_CHARS: Final = 2_000
MAX_REVISION_CHARS: Final = 200
_KIND: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class GivenSource:
    """A text that is given to a run beside its request, and that may be edited or deleted later."""

    source: str
    """`kind:id`."""
    author: str
    text: str


def source_name(kind: str, source_id: str) -> str:
    """The name of a source.

    Raises:
        InvalidInput: the kind or the id is none.
    """
    if not _KIND.fullmatch(kind):
        raise InvalidInput(
            f"The kind of source {kind[:50]!r} is none: write up to 32 small letters, digits, '_' "
            "and '-'."
        )
    is_storable = source_id.isprintable() and not source_id.isspace()
    if not source_id or len(kind) + 1 + len(source_id) > MAX_NAME_CHARS or not is_storable:
        raise InvalidInput(
            f"The source {source_id[:80]!r} must be 1 to {MAX_NAME_CHARS:,} printable characters."
        )
    return f"{kind}:{source_id}"


def parse_source(name: str) -> str:
    """A name as somebody wrote it, checked.

    Raises:
        InvalidInput: it is not `kind:id`.
    """
    kind, colon, source_id = name.partition(":")
    if not colon:
        raise InvalidInput(
            f"The source {name[:80]!r} has no kind: write KIND:ID, such as file:/srv/plans/a.md."
        )
    return source_name(kind, source_id)


def kind_of(name: str) -> str:
    """What comes before the colon."""
    return name.partition(":")[0]


def check_revision(revision: str) -> str:
    """A revision that can be kept, as it is.

    Raises:
        InvalidInput: it is empty, too long or not printable.
    """
    if not revision or len(revision) > MAX_REVISION_CHARS or not revision.isprintable():
        raise InvalidInput(
            f"The revision {revision[:50]!r} must be 1 to {MAX_REVISION_CHARS} printable "
            "characters."
        )
    return revision
