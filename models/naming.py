"""Naming the sources of a result, in the transaction that settles its call."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from models import hot_sources
from models.database import Statement

NO_SOURCES: Final[Mapping[str, str | None]] = MappingProxyType({})


def naming(
    settling: Mapping[str, Any], sources: Mapping[str, str | None]
) -> tuple[list[Statement], list[Statement]]:
    """What runs between the run's lock and the settling statement, and after it: mostly nothing.

    Args:
        settling: parameters of the settling statement; call_id, attempt and tenant are used.
        sources: revisions by name.
    """
    if not sources:
        return [], []
    rows = [{"source": name, "revision": revision} for name, revision in sources.items()]
    parameters = {**settling, "sources": json.dumps(rows)}
    return [(hot_sources.LOCK_SHARED, parameters)], [(hot_sources.NAME, parameters)]
