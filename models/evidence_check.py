"""Whether stored results are what their hashes say: read chunk by chunk, however long they are.

Results in one row are checked by their table, at every write.
"""

import hashlib
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, text

from models.diagnosis import Counted, Rows
from models.invariants import Invariant

_SHOWN: Final = 3
_HELD: Final = 2
"""Chunks in memory at once."""

ALTERED: Final = Invariant(
    "evidence_altered",
    "a result in chunks is not what its hash says",
    "what a tool returned cannot be proved any more",
    """
    SELECT e.call_id, e.sha256, e.total_chars, c.start_char, c.body
    FROM evidence e LEFT JOIN captures k ON k.id = e.capture_id AND k.is_kept
    LEFT JOIN evidence_chunks c ON c.capture_id = k.id
    WHERE e.body IS NULL ORDER BY e.call_id, c.start_char""",
)
"""The query gives all chunks, of sound results too."""


def check_results(connection: Connection) -> Counted:
    """The rule about results in chunks, and those that break it; needs memory for two chunks."""
    streamed = connection.execution_options(stream_results=True, max_row_buffer=_HELD)
    with streamed.execute(text(ALTERED.sql)) as result:
        altered = [
            call_id
            for call_id, chunks in groupby(result.mappings(), lambda row: row["call_id"])
            if _is_altered(chunks)
        ]
    return Counted(ALTERED, Rows(len(altered), tuple(altered[:_SHOWN])))


def _is_altered(chunks: Iterable[RowMapping]) -> bool:
    """Whether they are not, without a gap, the text that was hashed."""
    sha, chars, is_whole = hashlib.sha256(), 0, True
    told: RowMapping | dict[str, Any] = {}
    for told in chunks:
        if told["body"] is None or told["start_char"] != chars:
            is_whole = False
            continue
        sha.update(told["body"].encode())
        chars += len(told["body"])
    return not is_whole or chars != told["total_chars"] or sha.digest() != told["sha256"]
