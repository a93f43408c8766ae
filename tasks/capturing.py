"""What a running tool's result leaves in the record before its outcome: chunks and pictures."""

from collections.abc import Callable
from typing import Final

from loop.pictures import Picture
from models.calls import Started
from models.captures import add_chunk, add_picture
from models.database import Database
from tasks.drain_reads import ToolCode
from tasks.persisting import persist
from tools.capture import CaptureLost
from tools.chunks import Chunk
from umbel.contracts import new_id
from umbel.faults import fault

_PREFIX: Final = "cap"


class CallCapture:
    """Implements `tools.capture.CaptureWriter` for one attempt of one call.

    Its name is its own: an attempt that was handed back gives its number to the next one, and what
    the two write must not be mixed.
    """

    def __init__(self, database: Database, started: Started, code: ToolCode) -> None:
        self._database = database
        self._started = started
        self._code = code
        self.capture_id = new_id(_PREFIX)

    def write_chunk(self, chunk: Chunk) -> None:
        """See `CaptureWriter.write_chunk`."""
        self._write(
            lambda: add_chunk(
                self._database,
                self._started,
                self.capture_id,
                start_char=chunk.start_char,
                start_line=chunk.start_line,
                body=chunk.body,
            )
        )

    def write_picture(self, number: int, picture: Picture) -> None:
        """See `CaptureWriter.write_picture`."""
        self._write(
            lambda: add_picture(
                self._database, self._started, self.capture_id, number=number, picture=picture
            )
        )

    def _write(self, write: Callable[[], bool]) -> None:
        """Write with the code closed: no statement is torn, and its time is nobody's silence."""
        call = self._started.call
        with self._code.closed():
            fault("call.capture_pre", call_id=call.call_id, run_id=call.run_id)
            is_ours = persist(write)
            fault("call.capture_post", call_id=call.call_id, run_id=call.run_id)
            self._code.hear()
        if not is_ours:
            raise CaptureLost("The call has been settled meanwhile.")
