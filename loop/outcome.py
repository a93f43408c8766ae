"""How one tool call ended: a closed set."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chunked:
    """A result that is too long for one row, written in chunks before its outcome."""

    total_chars: int
    sha256: str
    """Of the UTF-8 bytes of its JSON text, in hex."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The tool gave a result."""

    text: str
    """JSON text, storable as it is; of a chunked result the beginning."""
    is_escaped: bool = False
    """Characters the database cannot store are written as JSON escapes."""
    capture_id: str | None = None
    """Under which chunks and pictures were written; None: the text is all."""
    chunked: Chunked | None = None
    """The whole, when it is in chunks."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Preflight said no; nothing was started."""

    text: str


@dataclass(frozen=True, slots=True)
class Errored:
    """The tool failed, and it is certain that it changed nothing that counts."""

    text: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Not started, because something made the whole step pointless."""

    text: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A change may or may not have happened, and nobody can know."""

    detail: str


ToolOutcome = Returned | Refused | Errored | Skipped | Unknown
