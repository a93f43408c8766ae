"""The sources that a running tool names: limits, so that a result rests on a list one can read."""

from typing import Final

from umbel.errors import InvalidInput
from umbel.source_name import check_revision, source_name

MAX_SOURCES: Final = 100


class NamedSources:
    """Names and revisions of one call; of a source named twice the last revision counts."""

    def __init__(self) -> None:
        self._revisions: dict[str, str | None] = {}

    @property
    def revisions(self) -> dict[str, str | None]:
        """By name; None: it is gone."""
        return dict(self._revisions)

    def add(self, kind: str, source_id: str, revision: str | None) -> None:
        """Name one.

        Raises:
            InvalidInput: a part is none, or it is one too many.
        """
        name = source_name(kind, source_id)
        if name not in self._revisions and len(self._revisions) >= MAX_SOURCES:
            raise InvalidInput(f"A call may name {MAX_SOURCES} sources; this is one more.")
        self._revisions[name] = None if revision is None else check_revision(revision)
