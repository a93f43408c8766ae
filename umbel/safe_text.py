"""Text of models, tools and people, made harmless for a terminal."""

import re
from typing import Final

# Control characters and escape sequences could move the cursor, change the title or forge lines;
# bidirectional controls could show an argument in another order than it is sent.
_HARMFUL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]"
)
_CUT: Final = "…"


def safe(text: str) -> str:
    """The text with harmful characters written as escapes; line breaks and tabs stay."""
    return _HARMFUL.sub(_escaped, text.replace("\r\n", "\n"))


def safe_json(text: str) -> str:
    """JSON without line breaks, its harmful characters written as JSON's own escapes."""
    return _HARMFUL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str, limit: int | None = None) -> str:
    """The text on one line, cut to `limit` characters."""
    joined = " ".join(safe(text).split())
    if limit is not None and len(joined) > limit:
        return joined[: max(0, limit - 1)] + _CUT
    return joined


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
