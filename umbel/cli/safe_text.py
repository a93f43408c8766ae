"""`umbel.safe_text`, under the name that the commands know it by."""

from umbel.safe_text import one_line, safe

__all__ = ["one_line", "safe"]
