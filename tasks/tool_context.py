"""What a running tool is given: its folder, earlier results, and a way to say that it is alive."""

import time
from pathlib import Path
from typing import Final

from models.calls import Started, extend_deadline
from models.database import Database
from models.evidence import ThreadEvidence
from models.resources import keep_resources
from tasks.drain_reads import ToolCode
from tools.resources import check_resource
from tools.sources import NamedSources
from tools.web.client import Web, WebAccess
from tools.workspace import DirectoryWorkspace
from umbel.errors import Misconfigured, Unavailable
from umbel.faults import fault
from umbel.tool import EvidencePage, EvidenceReader, ToolFailed, Workspace

_PROGRESS_SECONDS: Final = 1.0
"""Progress is written at most this often: tools may report it in a tight loop."""


class RunToolContext:
    """Implements `umbel.tool.ToolContext` for one attempt of one call."""

    def __init__(
        self,
        database: Database,
        started: Started,
        root: str | None,
        code: ToolCode,
        web_access: WebAccess,
    ) -> None:
        self._web_access = web_access
        self._database = database
        self._started = started
        self._root = root
        self._code = code
        self._workspace: Workspace | None = None
        self._resources: list[str] = []
        self._sources = NamedSources()
        self._last_progress = time.monotonic()

    @property
    def run_id(self) -> str:
        """The run that asked."""
        return self._started.call.run_id

    @property
    def call_id(self) -> str:
        """This call; also its evidence handle."""
        return self._started.call.call_id

    @property
    def effect_key(self) -> str:
        """The call id: the same for every try of this call."""
        return self._started.call.call_id

    @property
    def workspace(self) -> Workspace:
        """The run's folder; one object for the whole call, so that a replaced root is noticed."""
        if self._workspace is None:
            self._workspace = self._open_workspace()
        return self._workspace

    def _open_workspace(self) -> Workspace:
        if self._root is None:
            raise ToolFailed("This run has no workspace; start it with one to use file tools.")
        try:
            return DirectoryWorkspace(Path(self._root))
        except Misconfigured as error:
            # Nothing has been touched, which a tool that changes things must be able to say.
            raise ToolFailed(str(error)) from error

    @property
    def evidence(self) -> EvidenceReader:
        """Results stored earlier in the thread."""
        call = self._started.call
        return _WholeEvidence(
            ThreadEvidence(self._database, call.thread_id, call.tenant), self._code
        )

    @property
    def web(self) -> Web:
        """The web as far as this process may ask it; every piece that comes is progress."""
        return Web(self._web_access, self.progress)

    @property
    def stall_seconds(self) -> float:
        """The tool's allowed silence, as the run was accepted with it."""
        return self._started.call.stall_seconds

    @property
    def is_ending(self) -> bool:
        """Whether the worker was asked to end."""
        return self._code.is_ending

    @property
    def resources(self) -> tuple[str, ...]:
        """The ids the tool has recorded so far."""
        return tuple(self._resources)

    def record_resource(self, resource_id: str) -> None:
        """Name a thing this call made or changed outside."""
        check_resource(resource_id, len(self._resources))
        self._resources.append(resource_id)
        if self._started.call.effect != "mutation":
            return  # there is no receipt
        try:
            # Now: whoever looks for what came of a lost change needs it, and memory dies with it.
            with self._code.closed():
                keep_resources(self._database, self._started, self._resources)
                fault("call.resource_saved", call_id=self.call_id, run_id=self.run_id)
        except Unavailable:
            return  # it is written again with the outcome

    @property
    def sources(self) -> dict[str, str | None]:
        """The sources that the tool has named so far, with their revisions."""
        return self._sources.revisions

    def source(self, kind: str, source_id: str, revision: str | None) -> None:
        """Name something that the result rests on."""
        self._sources.add(kind, source_id, revision)

    def progress(self, note: str = "") -> None:  # noqa: ARG002 - shown once tools have a live stream
        """Reset the stall clock; a read of a worker that ends is cut short here."""
        self._code.hear()
        self._code.check()
        now = time.monotonic()
        if now - self._last_progress < min(_PROGRESS_SECONDS, self._started.call.stall_seconds / 3):
            return
        self._last_progress = now
        try:
            with self._code.closed():
                extend_deadline(self._database, self._started)
                fault("call.progress_saved", call_id=self.call_id, run_id=self.run_id)
        except Unavailable:
            # The deadline may pass meanwhile; the outcome still lands, as a late receipt.
            return


class _WholeEvidence:
    """Stored results, read by statements that the end of the worker does not tear."""

    def __init__(self, evidence: EvidenceReader, code: ToolCode) -> None:
        self._evidence = evidence
        self._code = code

    def read(self, handle: str, offset: int, limit: int) -> EvidencePage:
        """A page of a result."""
        with self._code.closed():
            return self._evidence.read(handle, offset, limit)

    def find_line(self, handle: str, line: int) -> int | None:
        """Where a line of a result begins."""
        with self._code.closed():
            return self._evidence.find_line(handle, line)
