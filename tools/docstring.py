"""A docstring taken apart: the model reads the same words as the people who maintain the tool."""

import inspect
import re
from typing import Final

_SECTION: Final = re.compile(
    r"^(args|arguments|parameters|returns|return|yields|raises|examples?|notes?|warnings?):\s*$",
    re.IGNORECASE,
)
_ARGUMENT_SECTIONS: Final = frozenset({"args", "arguments", "parameters"})
_ARGUMENT: Final = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def description_of(docstring: str) -> str:
    """Everything before the first section (`Args:`, `Returns:` and the like), without indents."""
    lines: list[str] = []
    for line in inspect.cleandoc(docstring).splitlines():
        if _SECTION.match(line):
            break
        lines.append(line)
    return "\n".join(lines).strip()


def argument_descriptions(docstring: str) -> dict[str, str]:
    """What the `Args:` section (Google style) says about each argument, on one line each."""
    found: dict[str, str] = {}
    current, depth = "", 0
    for line in _argument_lines(docstring):
        match = _ARGUMENT.match(line)
        if match and (not current or len(match[1]) <= depth):
            current, depth = match[2], len(match[1])
            found[current] = match[3].strip()
        elif current:
            found[current] = f"{found[current]} {line.strip()}".strip()
    return {name: text for name, text in found.items() if text}


def _argument_lines(docstring: str) -> list[str]:
    lines: list[str] = []
    is_inside = False
    for line in inspect.cleandoc(docstring).splitlines():
        if (section := _SECTION.match(line)) is not None:
            is_inside = section[1].lower() in _ARGUMENT_SECTIONS
        elif is_inside and line.strip():
            lines.append(line)
    return lines
