"""Stored results, read by page."""

from typing import Final

from models.database import Database
from umbel.contracts import ThreadId
from umbel.errors import InvalidInput, NotFound
from umbel.tool import EvidencePage

# Only results of the same thread, and of the same tenant, exist for the asker.
_PAGE: Final = """
SELECT substr(body, %(offset)s + 1, %(limit)s) AS text, total_chars, encode(sha256, 'hex') AS sha256
FROM evidence WHERE call_id = %(handle)s AND thread_id = %(thread_id)s AND tenant = %(tenant)s
"""


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
        parameters = {
            "handle": handle,
            "thread_id": self._thread_id,
            "tenant": self._tenant,
            "offset": offset,
            "limit": limit,
        }
        [rows] = self._database.run((_PAGE, parameters))
        if not rows:
            raise NotFound(f"There is no stored result {handle!r} in this thread.")
        row = rows[0]
        total = row["total_chars"]
        if offset > total:
            raise InvalidInput(
                f"offset {offset} lies behind the end; the result has {total} characters."
            )
        end = offset + len(row["text"])
        return EvidencePage(row["text"], offset, end if end < total else None, total, row["sha256"])
