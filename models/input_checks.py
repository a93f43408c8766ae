"""What of a caller's is refused before it is stored: ids that are none, texts nobody could keep."""

import re
from typing import Final

from umbel.errors import InvalidInput

MAX_INPUT_CHARS: Final = 256 * 1024
_OWN_ID: Final = re.compile(r"[a-z]{3}_[A-Za-z0-9_-]{1,60}")


def check_id(name: str, value: str, prefix: str) -> None:
    """Refuse an id of a caller's own that is no id.

    Raises:
        InvalidInput: with the form it must have.
    """
    if not _OWN_ID.fullmatch(value) or not value.startswith(f"{prefix}_"):
        raise InvalidInput(
            f"{name} {value[:80]!r} is no id: write {prefix}_ and up to 60 letters, digits, "
            "'_' and '-'."
        )


def check_input(value: str) -> None:
    """Refuse a request text that is empty, too long or cannot be stored unchanged.

    Raises:
        InvalidInput: with the field, the fact and what to do.
    """
    if not value.strip():
        raise InvalidInput("input is empty: say what the agent should do.")
    if len(value) > MAX_INPUT_CHARS:
        raise InvalidInput(
            f"input has {len(value)} characters; the limit is {MAX_INPUT_CHARS}. "
            "Put long material into a file of the workspace."
        )
    check_storable("input", value)


def check_storable(what: str, value: str) -> None:
    """Refuse a text that PostgreSQL cannot give back as it came.

    Raises:
        InvalidInput: with what it is.
    """
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidInput(f"{what} holds U+0000 or half a surrogate pair; remove the character.")
