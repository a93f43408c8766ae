"""Stored results, read by page: what is read of a result is a page, whatever its length."""

from typing import Any, Final

from models.database import Database, Row
from umbel.contracts import ThreadId
from umbel.errors import InvalidInput, NotFound
from umbel.json_text import after_line_end
from umbel.tool import EvidencePage

_LONGEST_PAGE: Final = 2**30
_LAST_PLACE: Final = 2**40
"""Beyond the end of every result, and within what PostgreSQL counts with."""

# Only results of the same thread, and of the same tenant, exist for the asker.
# The handle of a call stands for its newest evidence, once it was read again.
_OWN: Final = """
e.thread_id = %(thread_id)s AND e.tenant = %(tenant)s AND e.call_id = coalesce(
  (SELECT f.id FROM calls f WHERE f.refreshes = %(handle)s AND f.state <> 'skipped'
    AND f.settled_at IS NOT NULL ORDER BY f.refresh_no DESC LIMIT 1), %(handle)s)
"""

# Of a long result the chunk that the page begins in, and those behind it that it reaches.
_PAGE: Final = f"""
SELECT e.total_chars, encode(e.sha256, 'hex') AS sha256, e.stored_at, CASE
  WHEN e.body IS NOT NULL
    THEN substr(e.body, least(%(offset)s, 2000000000)::int + 1, %(limit)s::int)
  ELSE (
    SELECT substr(string_agg(c.body, '' ORDER BY c.start_char),
      least(%(offset)s - min(c.start_char), 2000000000)::int + 1, %(limit)s::int)
    FROM evidence_chunks c
    WHERE c.capture_id = e.capture_id AND c.start_char < %(offset)s::bigint + %(limit)s::bigint
      AND c.start_char >= (SELECT max(b.start_char) FROM evidence_chunks b
        WHERE b.capture_id = e.capture_id AND b.start_char <= %(offset)s::bigint)) END AS text
FROM evidence e WHERE {_OWN}
"""  # noqa: S608 - constant text, no input

# The part of a result in which a line begins: the last one with fewer line ends before it.
_PART: Final = f"""
SELECT e.total_chars, coalesce(c.start_char, 0) AS start_char,
  coalesce(c.start_line, 0) AS start_line, coalesce(c.body, e.body) AS body
FROM evidence e LEFT JOIN LATERAL (
  SELECT b.start_char, b.start_line, b.body FROM evidence_chunks b
  WHERE e.body IS NULL AND b.capture_id = e.capture_id AND b.start_line < %(ends)s
  ORDER BY b.start_line DESC, b.start_char DESC LIMIT 1) c ON true
WHERE {_OWN}
"""  # noqa: S608 - constant text, no input


class ThreadEvidence:
    """The results of one thread; implements `umbel.tool.EvidenceReader`."""

    def __init__(self, database: Database, thread_id: ThreadId, tenant: str) -> None:
        self._database = database
        self._thread_id = thread_id
        self._tenant = tenant

    def read(self, handle: str, offset: int, limit: int) -> EvidencePage:
        """See `EvidenceReader.read`."""
        if offset < 0 or limit < 1:
            raise InvalidInput(f"offset {offset} and limit {limit}: give 0 or more, and 1 or more.")
        row = self._row(
            _PAGE, handle, offset=min(offset, _LAST_PLACE), limit=min(limit, _LONGEST_PAGE)
        )
        total = row["total_chars"]
        if offset > total:
            raise InvalidInput(
                f"offset {offset} lies behind the end; the result has {total} characters."
            )
        end = offset + len(row["text"])
        return EvidencePage(
            text=row["text"],
            offset=offset,
            next_offset=end if end < total else None,
            total_chars=total,
            sha256=row["sha256"],
            captured_at=row["stored_at"],
        )

    def find_line(self, handle: str, line: int) -> int | None:
        """See `EvidenceReader.find_line`."""
        if line < 1:
            raise InvalidInput(f"line {line}: lines are counted from 1.")
        if line == 1:
            self._row(_PAGE, handle, offset=0, limit=1)
            return 0
        row = self._row(_PART, handle, ends=min(line - 1, _LAST_PLACE))
        end = after_line_end(row["body"], line - 1 - row["start_line"])
        return None if end is None else row["start_char"] + end

    def _row(self, query: str, handle: str, **parameters: Any) -> Row:
        """What there is of a result of this thread.

        Raises:
            NotFound: there is no such result in this thread.
        """
        own = {"handle": handle, "thread_id": self._thread_id, "tenant": self._tenant}
        [rows] = self._database.run((query, own | parameters))
        if not rows:
            raise NotFound(f"There is no stored result {handle!r} in this thread.")
        return rows[0]
