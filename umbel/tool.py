"""What an author of tools needs: the decorator, the context a tool is given, the failure types.

    import umbel

    @umbel.tool(effect="read")
    def word_count(context: umbel.ToolContext, path: str) -> int:
        \"\"\"Count the words of a text file.\"\"\"
        return len(context.workspace.read_text(path).split())

The decorator only attaches a `ToolDeclaration`; the registry (tools/registry.py) builds the JSON
Schema and finds the function through the entry point group `umbel.tools` or `UMBEL_TOOLS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

from umbel.errors import UmbelError
from umbel.names import Effect, Placement
from umbel.web import Web

DECLARATION_ATTRIBUTE: Final = "__umbel_tool__"
DEFAULT_STALL_SECONDS: Final = 120.0

ToolFunction = TypeVar("ToolFunction", bound=Callable[..., Any])  # any signature, any result


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """What `@umbel.tool` says about a function."""

    name: str | None
    effect: Effect
    placement: Placement
    version: str
    stall_seconds: float
    repeatable: bool
    output_schema: Mapping[str, Any] | None = None
    targets: Sequence[str] | None = None
    trusted: bool = False
    resource_key: str | None = None


def tool(  # noqa: PLR0913 - one keyword per property of a tool, each with a default
    *,
    name: str | None = None,
    effect: Effect = "mutation",
    placement: Placement = "task",
    version: str = "1",
    stall_seconds: float = DEFAULT_STALL_SECONDS,
    repeatable: bool = False,
    output_schema: Mapping[str, Any] | None = None,
    targets: Sequence[str] | None = None,
    trusted: bool = False,
    resource_key: str | None = None,
) -> Callable[[ToolFunction], ToolFunction]:
    """Mark a function as a tool; name, description and schema come from the function itself.

    Args:
        name: what the model calls it; the function's name by default.
        effect: `read` changes nothing, `idempotent` may be repeated, `mutation` (the default)
            changes the world and is sent at most once.
        placement: `inline` tools run in the step worker's process, `task` tools as a Celery task.
            A mutation is always a task.
        version: raise it whenever the meaning changes; it is part of what an approval binds to.
        stall_seconds: silence (no `context.progress`) after which the tool counts as stalled.
        repeatable: identical calls are legitimate, as for a poll.
        output_schema: a JSON Schema that every result fits. A result that does not is an error of
            a read, and leaves the outcome of a change unknown.
        targets: the arguments that name what it changes, such as `["path"]`. Operators protect
            targets by name; of a tool that says nothing every text among its arguments counts.
        trusted: nobody but the owner of the run can have written what it returns. Results of other
            tools are named as untrusted where an owner is asked to approve a change.
        resource_key: of a mutation: what it touches, with arguments in braces, such as
            `"account:{account}"`; `{workspace}` is the run's folder. Changes with one key run one
            at a time, in all runs of the tenant; without a key, all of a thread's.
    """

    def attach(function: ToolFunction) -> ToolFunction:
        declared = ToolDeclaration(
            name,
            effect,
            placement,
            version,
            stall_seconds,
            repeatable,
            output_schema,
            targets,
            trusted,
            resource_key,
        )
        setattr(function, DECLARATION_ATTRIBUTE, declared)
        return function

    return attach


class ToolFailed(UmbelError):
    """Raised by a tool that knows its change did NOT happen: a definite failure.

    Any other exception out of a mutation means nobody knows, and pauses the run.
    """


@dataclass(frozen=True, slots=True)
class EvidencePage:
    """A cut of a stored result; offsets count characters."""

    text: str
    offset: int
    next_offset: int | None
    total_chars: int
    sha256: str
    captured_at: datetime | None = None
    """When the result was stored; None of one that is not."""


class EvidenceReader(Protocol):
    """Pages of results stored earlier in the same thread."""

    def read(self, handle: str, offset: int, limit: int) -> EvidencePage:
        """Up to `limit` characters of result `handle` from `offset`.

        Raises:
            NotFound: no such result in this thread.
            InvalidInput: the offset lies outside the result.
        """
        ...

    def find_line(self, handle: str, line: int) -> int | None:
        r"""The offset at which a line of a result begins, counted from 1; None: it has fewer.

        Lines are those of its stored JSON text, which ends a line with the escape `\n`.

        Raises:
            NotFound: no such result in this thread.
            InvalidInput: lines are counted from 1.
        """
        ...


class Workspace(Protocol):
    """The one folder a run may touch; no path, link or race leads out of it.

    Paths are relative to the root, with `/`. Every method raises InvalidInput for a path that
    leaves the root, NotFound for one that is not there.
    """

    def list_files(self, path: str) -> list["FileEntry"]:
        """Entries directly below a folder, by name."""
        ...

    def walk(self, path: str) -> list["FileEntry"]:
        """Every regular file below a folder, by path."""
        ...

    def read_bytes(self, path: str, limit: int | None = None) -> bytes:
        """The content of a file, at most `limit` bytes of it."""
        ...

    def read_text(self, path: str) -> str:
        """The content of a file as UTF-8; bytes that are not UTF-8 become U+FFFD."""
        ...

    def write_text(self, path: str, text: str) -> int:
        """Replace a file atomically, making its folders; returns the bytes written."""
        ...

    def source_id(self, path: str) -> str:
        """What a file is called by others, for `ToolContext.source`: its absolute path."""
        ...


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One entry of a workspace folder."""

    path: str
    kind: str
    size_bytes: int


class ToolContext(Protocol):
    """What a tool is given beside its arguments: never a store, never a connection."""

    @property
    def run_id(self) -> str:
        """The run that asked."""
        ...

    @property
    def call_id(self) -> str:
        """This call; also its evidence handle."""
        ...

    @property
    def effect_key(self) -> str:
        """Idempotency key to hand to the outside system: the same for every try of this call."""
        ...

    @property
    def workspace(self) -> Workspace:
        """The run's folder.

        Raises:
            ToolFailed: the run has none.
        """
        ...

    @property
    def evidence(self) -> EvidenceReader:
        """Results stored earlier in the thread."""
        ...

    @property
    def web(self) -> Web:
        """Web servers that may be asked from here."""
        ...

    @property
    def stall_seconds(self) -> float:
        """How long this call may be silent."""
        ...

    @property
    def is_ending(self) -> bool:
        """Whether this worker was asked to end: a change should stop at the next safe place.

        A read need not look. What is left of it is dropped, and another worker runs it again: its
        code is cut short by a `BaseException`, at the latest in `progress`. Let that pass.
        """
        ...

    def record_resource(self, resource_id: str) -> None:
        """Name a thing this call made or changed outside, as the outside system names it.

        Kept with the receipt, so that a person can find it. At most 100, of 500 characters each.

        Raises:
            InvalidInput: too many, too long, or empty.
        """
        ...

    def source(self, kind: str, source_id: str, revision: str | None) -> None:
        """Name something that the result rests on and that may change later: `kind:source_id`.

        When somebody says that it has (`umbel sources changed`), the result is read again, by the
        same call, before the model is asked next. A change names what it has changed, so that word
        of its own doing is no news to its run. At most 100 for a call.

        Args:
            kind: such as `file` or `page`: small letters, digits, `_` and `-`.
            source_id: the same for everybody who means it: an absolute path, an address.
            revision: what was read or written. Whole numbers have an order; of other texts (a
                hash, an ETag) it only counts whether they are the same. None: it is gone.

        Raises:
            InvalidInput: a part is empty or too long, or it is one source too many.
        """
        ...

    def progress(self, note: str = "") -> None:
        """Say that the tool is alive, which resets its stall clock; cheap to call often.

        Does not return in a read or idempotent tool whose worker ends.
        """
        ...
