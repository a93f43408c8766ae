"""Times and ages as they are written on a command line."""

import re
from datetime import UTC, datetime
from typing import Final

from umbel.errors import InvalidInput

_AGE: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_MOST_SECONDS: Final = 100 * 366 * 86_400


def time_range(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """The times of `--since` and `--until`.

    Raises:
        InvalidInput: one is no time, or nothing lies between them.
    """
    begin, end = moment_of("--since", since), moment_of("--until", until)
    if begin is not None and end is not None and begin >= end:
        raise InvalidInput("--since is not before --until: nothing can be in between.")
    return begin, end


def moment_of(option: str, value: str | None) -> datetime | None:
    """A date or a time; without an offset it is UTC.

    Raises:
        InvalidInput: it is neither.
    """
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise InvalidInput(
            f"{option} {value!r} is no time; write 2026-03-01, 2026-03-01T08:30 (UTC) or "
            "2026-03-01T08:30+02:00."
        ) from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def age_seconds(value: str | None) -> float | None:
    """The seconds of an age such as `90s`, `2h` or `3d`.

    Raises:
        InvalidInput: it is none.
    """
    if value is None:
        return None
    match = _AGE.fullmatch(value.strip())
    seconds = float(match[1]) * _UNIT_SECONDS[match[2]] if match else 0.0
    if not 0 < seconds <= _MOST_SECONDS:
        raise InvalidInput(
            f"--age {value!r} is no age; write a number and s, m, h, d or w, such as 90s, 2h or 3d."
        )
    return seconds
