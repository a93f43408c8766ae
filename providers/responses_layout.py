"""How the items of a Responses answer stood to each other, kept so that they can go back so.

A `ModelTurn` has one text and a list of calls; the answer had a sequence, with reasoning between.
The layout is that sequence: opaque items whole, messages and calls as placeholders.
"""

from collections.abc import Sequence
from typing import Any, Final

from providers.shapes import as_number

LAYOUT_KEY: Final = "items"
MESSAGE: Final = "message"
OWN_CALL: Final = "call"
BETWEEN_MESSAGES: Final = "\n\n"


def split_text(text: str, layout: Sequence[dict[str, Any]]) -> list[str]:
    """The text of each message of the layout, in their order.

    A text that is not what the layout measured (its tags were dropped, say) stays whole, in the
    place of the first message.
    """
    sizes = [as_number(entry.get("chars")) or 0 for entry in layout if entry.get("type") == MESSAGE]
    if not sizes:
        return []
    expected = sum(sizes) + len(BETWEEN_MESSAGES) * (sum(size > 0 for size in sizes) - 1)
    if expected != len(text):
        return [text] + [""] * (len(sizes) - 1)
    texts, start = [], 0
    for size in sizes:
        texts.append(text[start : start + size])
        start += size + (len(BETWEEN_MESSAGES) if size else 0)
    return texts
