"""How one tool call ended: a closed set."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Returned:
    """The tool gave a result."""

    text: str
    """JSON text, storable as it is."""
    is_escaped: bool = False
    """Characters the database cannot store are written as JSON escapes."""


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
