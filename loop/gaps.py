"""What a request shows where a result no longer stands: it names the source and says why.

The model may answer in part and say what is missing; nothing of a gone source's old words is shown.
"""

import json
from collections.abc import Sequence
from typing import Final

DELETED: Final = "deleted"
UNREADABLE: Final = "unreadable"

_WHY: Final = {
    DELETED: "It was deleted after it had been read. What it said does not count any more.",
    UNREADABLE: "It has changed since it was read, and could not be read again. What it said does "
    "not count any more.",
}
_SAY_SO: Final = " Go on without it; where your answer would need it, say that it is missing."


def gap(sources: Sequence[str], reason: str, detail: str = "") -> str:
    """JSON text in place of a result whose sources are gone.

    Args:
        sources: their names, `kind:id`.
        reason: `deleted` or `unreadable`.
        detail: what else is known about it.
    """
    named = [
        {"id": source, "kind": source.partition(":")[0], "reason": reason} for source in sources
    ]
    shown: dict[str, object] = {"gap": named, "message": _WHY[reason] + _SAY_SO}
    if detail:
        shown["detail"] = detail
    return _text(shown)


def given_text(source: str, author: str, text: str) -> str:
    """A text that was given beside the request: it is no word of the owner's, and says so."""
    return f"{_text({'source': source, 'author': author})}\n{text}"


def changed_since(sources: Sequence[str], view: str) -> str:
    """The result of a change, and that what it changed is not as it left it."""
    message = "What this call changed has been changed by somebody else since."
    return f"{_text({'changed_since': list(sources), 'message': message})}\n{view}"


def volatile(sources: Sequence[str], view: str) -> str:
    """A result whose sources change faster than they can be read again."""
    message = (
        "This changes all the time: it was read again several times before you were asked, and is "
        "shown as it was read last. It may be different already."
    )
    return f"{_text({'volatile': list(sources), 'message': message})}\n{view}"


def unread(sources: Sequence[str], error_text: str) -> str:
    """The gap of a refresh that ended as an error with this result text."""
    try:
        found = json.loads(error_text)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        found = ""
    return gap(sources, UNREADABLE, str(found))


def _text(value: dict[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
