"""Which releases of Redis and Valkey have the fixes that somebody with access could need missing.

Redis: the release of July 2026 for every supported series (remote code execution; it includes
CVE-2026-23479 and CVE-2025-49844). Valkey: CVE-2025-67733, CVE-2026-21863 and, in 9.0,
CVE-2026-27623 (February 2026). Series that are not listed and older than the newest listed one get
no fixes any more.
"""

from collections.abc import Mapping
from typing import Final, Literal

Product = Literal["Redis", "Valkey"]
Version = tuple[int, int, int]

_FIXED: Final[Mapping[Product, Mapping[tuple[int, int], int]]] = {
    "Redis": {(7, 2): 15, (7, 4): 10, (8, 2): 8, (8, 4): 5, (8, 6): 5, (8, 8): 1},
    "Valkey": {(7, 2): 12, (8, 0): 7, (8, 1): 6, (9, 0): 3},
}


def parse_version(text: str) -> Version:
    """The first three numbers; missing ones are 0."""
    numbers = [int(part) for part in text.split("-")[0].split(".") if part.isdecimal()]
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major, minor, patch


def fixed_release(product: Product, version: Version) -> str | None:
    """The release to upgrade to, or None: nothing is known against this one."""
    series, patch = version[:2], version[2]
    fixes = _FIXED[product]
    if series > max(fixes):
        return None
    least = fixes.get(series)
    if least is None:
        newer = min(line for line in fixes if line > series)
        return f"{newer[0]}.{newer[1]}.{fixes[newer]}"
    return f"{series[0]}.{series[1]}.{least}" if patch < least else None
