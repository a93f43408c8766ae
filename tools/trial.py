"""One tool run by itself, as in production but without a run around it: for tests of tools."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pydantic_core

from loop.outcome import Errored, Returned, Unknown
from tools.arguments import ArgumentProblems, check_arguments
from tools.capture import MemoryCapture
from tools.definition import Tool, from_function
from tools.execution import run_tool
from tools.resources import check_resource
from tools.sources import NamedSources
from tools.web.client import Web, WebAccess
from tools.workspace import DirectoryWorkspace
from umbel.errors import InvalidInput, NotFound
from umbel.json_text import after_line_end
from umbel.tool import (
    DEFAULT_STALL_SECONDS,
    EvidencePage,
    EvidenceReader,
    ToolFailed,
    Workspace,
)
from umbel.web_targets.allowing import AllowList


class MemoryEvidence:
    """An `EvidenceReader` over texts that a test gives; `sha256` is left empty."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)

    def read(self, handle: str, offset: int, limit: int) -> EvidencePage:
        """A page of the text given under `handle`."""
        text = self._texts.get(handle)
        if text is None:
            raise NotFound(f"There is no result {handle!r} in this thread.")
        if not 0 <= offset <= len(text):
            raise InvalidInput(f"Offset {offset} lies outside the {len(text)} characters.")
        end = min(len(text), offset + limit)
        return EvidencePage(
            text[offset:end], offset, end if end < len(text) else None, len(text), ""
        )

    def find_line(self, handle: str, line: int) -> int | None:
        """Where a line of the text given under `handle` begins."""
        if line < 1:
            raise InvalidInput(f"line {line}: lines are counted from 1.")
        self.read(handle, 0, 1)
        return 0 if line == 1 else after_line_end(self._texts[handle], line - 1)


@dataclass(slots=True)
class TrialContext:
    """A `umbel.tool.ToolContext` held in memory."""

    run_id: str = "run_trial"
    call_id: str = "call_trial"
    effect_key: str = "call_trial"
    folder: Workspace | None = None
    evidence: EvidenceReader = field(default_factory=lambda: MemoryEvidence({}))
    notes: list[str] = field(default_factory=list)
    """What the tool said through `progress`."""
    resources: list[str] = field(default_factory=list)
    """What the tool recorded through `record_resource`."""
    sources: NamedSources = field(default_factory=NamedSources)
    """What the tool named through `source`."""
    stall_seconds: float = DEFAULT_STALL_SECONDS
    is_ending: bool = False
    web_access: WebAccess = field(default_factory=lambda: WebAccess(AllowList()))

    @property
    def workspace(self) -> Workspace:
        """The folder given to the trial."""
        if self.folder is None:
            raise ToolFailed("This run has no workspace.")
        return self.folder

    @property
    def web(self) -> Web:
        """The web, as far as the trial's access goes: by default the public one."""
        return Web(self.web_access, self.progress)

    def record_resource(self, resource_id: str) -> None:
        """Keep the id."""
        check_resource(resource_id, len(self.resources))
        self.resources.append(resource_id)

    def source(self, kind: str, source_id: str, revision: str | None) -> None:
        """Keep the source."""
        self.sources.add(kind, source_id, revision)

    def progress(self, note: str = "") -> None:
        """Keep the note."""
        self.notes.append(note)


def try_tool(
    function: Callable[..., object], arguments: Mapping[str, object], context: TrialContext
) -> Returned | Errored | Unknown:
    """How one call of a marked function ends, after the checks that production makes.

    Raises:
        Misconfigured: the function is no usable tool.
        InvalidInput: the arguments do not fit its schema.
    """
    tool = from_function(function)
    text = pydantic_core.to_json(dict(arguments)).decode()
    problems = check_arguments(tool.input_schema, text)
    if isinstance(problems, ArgumentProblems):
        raise InvalidInput(f"Arguments of tool {tool.name!r}: {problems}")
    return _run_typed(tool, text, context)


def trial_workspace(folder: Path) -> Workspace:
    """The workspace that production makes of a folder."""
    return DirectoryWorkspace(folder)


def _run_typed(tool: Tool, text: str, context: TrialContext) -> Returned | Errored | Unknown:
    if tool.typed is not None:
        tool.typed.parse(text)  # a fault here is the caller's, not the tool's
    memory = MemoryCapture()
    outcome = run_tool(tool, text, context, writer=memory)
    if isinstance(outcome, Returned) and outcome.chunked is not None:
        return replace(outcome, text="".join(chunk.body for chunk in memory.chunks), chunked=None)
    return outcome
