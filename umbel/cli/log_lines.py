"""What processes log as JSON, as people read it in a command's output."""

from umbel.log_line import LogLine, parse, to_text
from umbel.safe_text import safe

__all__ = ["LogLine", "parse", "render"]


def render(line: str) -> str:
    """One readable line: time, level, message, fields; a line that is no log line stays as it is.

    Either way control characters are escaped.
    """
    parsed = parse(line)
    return to_text(parsed) if parsed is not None else safe(line).replace("\n", "\\n")
