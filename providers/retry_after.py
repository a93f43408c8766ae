"""How long a provider asks us to wait, from the many places where it may say so."""

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from providers.shapes import JsonObject, as_list, as_object, as_text

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNIT: Final = r"(?:ms|milli[a-z]*|s(?:ec[a-z]*)?|m(?:in[a-z]*)?|h(?:ours?)?|d(?:ays?)?)"
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_PROSE: Final = re.compile(
    r"(?:try again|retry)[^.\d]{0,20}?\b(?:in|after)\s+"
    rf"((?:\d+(?:\.\d+)?\s*{_UNIT}\s*)+)(?![a-z])",
    re.IGNORECASE,
)
_HTTP_DATE: Final = re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")


def asked_delay_seconds(headers: Mapping[str, str], error: JsonObject, prose: str) -> float | None:
    """Seconds to wait as the provider said, never negative; None if it did not say."""
    details = [as_object(item) for item in as_list(error.get("details"))]
    found = (
        _number(headers.get("retry-after-ms"), 0.001),
        _number(headers.get("retry-after"), 1.0),
        _until(headers.get("retry-after"), headers.get("date")),
        *(_span(as_text(item.get("retryDelay"))) for item in details),
        *(_span(span) for span in _PROSE.findall(prose)),
    )
    return next((max(seconds, 0.0) for seconds in found if seconds is not None), None)


def _number(text: str | None, unit: float) -> float | None:
    try:
        seconds = float(text or "") * unit
    except ValueError:
        return None
    return seconds if seconds < float("inf") else None


def _until(retry_at: str | None, now: str | None) -> float | None:
    """From the provider's own clock if it sent one: ours may differ."""
    target = _timestamp(retry_at)
    if target is None:
        return None
    sent_at = _timestamp(now)
    return target - (time.time() if sent_at is None else sent_at)


def _timestamp(text: str | None) -> float | None:
    dates = _HTTP_DATE.findall(text or "")
    try:
        return parsedate_to_datetime(dates[-1]).timestamp() if dates else None
    except ValueError:
        return None


def _span(text: str) -> float | None:
    """`7.5s`, `1m2s`, `1 minute 2 seconds` in seconds."""
    parts: list[tuple[str, str]] = _SPAN.findall(text.lower())
    seconds = [float(number) * _unit(unit) for number, unit in parts]
    return sum(seconds) if seconds else None


def _unit(name: str) -> float:
    return _UNITS.get("ms" if name.startswith(("ms", "milli")) else name[0], 0.0)
