"""Where spans belong: W3C Trace Context as text, and ids that every process derives alike.

Knows nothing of OpenTelemetry: whoever accepts runs needs this and no SDK.
"""

import hashlib
import logging
import re
import sys
from dataclasses import dataclass
from typing import Final

log: Final = logging.getLogger(__name__)

_FORM: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_LONGEST: Final = 55
SAMPLED: Final = 1


@dataclass(frozen=True, slots=True)
class TracePlace:
    """One span of a trace, by its ids."""

    trace_id: int
    span_id: int
    flags: int

    def __str__(self) -> str:
        """The header `traceparent`."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"


def parse_traceparent(text: str) -> TracePlace | None:
    """The place a header names; None unless it is exactly what version 00 allows."""
    found = _FORM.fullmatch(text) if len(text) == _LONGEST else None
    if found is None:
        return None
    place = TracePlace(*(int(part, 16) for part in found.groups()))
    return place if place.trace_id and place.span_id else None


def storable_traceparent(text: str | None) -> str | None:
    """The header if it can be kept; a wrong one costs its caller the link and nothing else."""
    if text is None or parse_traceparent(text) is not None:
        return text
    log.warning("traceparent ignored", extra={"chars": len(text)})
    return None


def current_traceparent() -> str | None:
    """Where the OpenTelemetry of this program is at; None when it has none, or no span is open."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry.trace import get_current_span

    span = get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return str(TracePlace(span.trace_id, span.span_id, int(span.trace_flags) & SAMPLED))


def derived_trace_id(run_id: str) -> int:
    """The trace of a run that nobody else's trace contains."""
    return _hash(16, "trace", run_id)


def derived_span_id(kind: str, *parts: str | int) -> int:
    """The id of the span that `kind` and `parts` name, the same in every process."""
    return _hash(8, kind, *parts)


def _hash(size_bytes: int, *parts: str | int) -> int:
    digest = hashlib.sha256("/".join(map(str, ("umbel", *parts))).encode()).digest()
    return int.from_bytes(digest[:size_bytes], "big") or 1  # zero means "no id"
