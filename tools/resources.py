"""Ids of things outside that a change made: limits, so that a receipt stays a receipt."""

from typing import Final

from umbel.errors import InvalidInput

MAX_RESOURCES: Final = 100
MAX_CHARS: Final = 500


def check_resource(resource_id: str, known: int) -> None:
    """Refuse an id that cannot be kept.

    Raises:
        InvalidInput: with the limit.
    """
    if known >= MAX_RESOURCES:
        raise InvalidInput(f"A call may record {MAX_RESOURCES} resource ids; this is one more.")
    is_storable = "\x00" not in resource_id and resource_id.isprintable()
    if not resource_id or len(resource_id) > MAX_CHARS or not is_storable:
        raise InvalidInput(
            f"The resource id {resource_id[:50]!r} must be 1 to {MAX_CHARS} printable characters."
        )
