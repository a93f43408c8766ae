"""Quotations of the demo model: whole lines or sentences, “…” wherever something is left out."""

import re
from collections import Counter
from typing import Final

QUOTE_CHARS: Final = 300
_PROSE: Final = (".md", ".rst", ".txt")
_WRAPPED_CHARS: Final = 60
_MAX_JOINED: Final = 4
_MARKED: Final = re.compile(r"\s*(?:[|#>*+-]|```|\d+[.)]\s|$)")
_ENDED: Final = re.compile(r"[.!?:|]['\"”)*`]*\s*$")
_SENTENCE_END: Final = re.compile(r"[.!?]['\"”)*`]*(?:\s+|$)")
_MAX_DIFFERENT: Final = 20


def quoted(path: str, lines: list[str], number: int, wanted: str) -> str:
    """The line with the text; in prose that is wrapped, the sentence that it is part of."""
    line = lines[number].strip()
    if not path.lower().endswith(_PROSE) or _is_fenced(lines, number):
        return shortened(line, wanted)
    first = last = number
    while first > max(number - _MAX_JOINED, 0) and _goes_on(lines[first - 1], lines[first]):
        first -= 1
    end_of_text = len(lines) - 1
    while last < min(number + _MAX_JOINED, end_of_text) and _goes_on(lines[last], lines[last + 1]):
        last += 1
    if first == last:
        return shortened(line, wanted)
    before = sum(len(part.strip()) + 1 for part in lines[first:number])
    joined = " ".join(part.strip() for part in lines[first : last + 1])
    at = before + max(line.casefold().find(wanted.casefold()), 0)
    start, end = 0, len(joined)
    for stop in _SENTENCE_END.finditer(joined):
        if stop.end() <= at:
            start = stop.end()
        elif stop.start() >= at + len(wanted) - 1:
            end = stop.end()
            break
    return shortened(joined[start:end].strip(), wanted)


def _is_fenced(lines: list[str], number: int) -> bool:
    """True for code and drawings: their lines stand for themselves."""
    fences = sum(line.lstrip().startswith("```") for line in lines[:number])
    return fences % 2 == 1 or lines[number].startswith("    ")


def _goes_on(line: str, following: str) -> bool:
    """True if a sentence seems to go on in the following line."""
    is_wrapped = len(line.rstrip()) >= _WRAPPED_CHARS and not _ENDED.search(line)
    return is_wrapped and not line.startswith(("#", "|")) and not _MARKED.match(following)


def shortened(text: str, wanted: str = "") -> str:
    """The text, or the part of a long one around what was wanted, cut between words."""
    if len(text) <= QUOTE_CHARS:
        return text
    at = max(text.casefold().find(wanted.casefold()), 0) if wanted else 0
    start = max(0, min(at - QUOTE_CHARS // 3, len(text) - QUOTE_CHARS))
    end = min(start + QUOTE_CHARS, len(text))
    if start and (space := text.find(" ", start, at)) >= 0:
        start = space + 1
    if end < len(text) and (space := text.rfind(" ", at + len(wanted), end)) > start:
        end = space
    return f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"


def only_in(text: str, other: str) -> list[str]:
    """Lines, with their numbers, that stand in a text more often than in the other."""
    left = Counter(other.splitlines())
    different = []
    for number, line in enumerate(text.splitlines(), 1):
        if left[line] > 0:
            left[line] -= 1
        elif line.strip():
            different.append(f"  {number}: {shortened(line)}")
    if len(different) > _MAX_DIFFERENT:
        more = len(different) - _MAX_DIFFERENT
        return [*different[:_MAX_DIFFERENT], f"  … and {more} more lines"]
    return different
