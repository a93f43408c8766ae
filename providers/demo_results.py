"""What tools have answered the demo model so far, read leniently: whole, cut, paged or an error."""

import json
import re
from dataclasses import dataclass
from typing import Final

from providers.shapes import JsonObject, NotJson, as_list, as_number, as_object, as_text, read_json
from umbel.strict_json import Json

_HANDLE: Final = re.compile(r"evidence_read.{0,40}?\"?(call_\w+)\"?", re.DOTALL)
_OFFSET: Final = re.compile(r"\"offset\"\s*:\s*(\d+)")
_NOTICE: Final = re.compile(r"\n\[[^\n]*evidence_read[^\n]*\]?\s*\Z")
_STRING: Final = r'"((?:[^"\\]|\\.)*)"'
_MATCH: Final = re.compile(
    rf'\{{"path"\s*:\s*{_STRING}\s*,\s*"line"\s*:\s*(\d+)\s*,\s*"text"\s*:\s*{_STRING}'
)
_PATH: Final = re.compile(rf'"path"\s*:\s*{_STRING}')
_START_LINE: Final = re.compile(r'"start_line"\s*:\s*(\d+)')
_TEXT: Final = re.compile(r'"text"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
_QUOTE_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Match:
    """A place in a file, and the line that stands there; line 0 is unknown."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """One call made for the request, and its result as the prompt shows it."""

    name: str
    arguments: JsonObject
    result: str

    def value(self) -> JsonObject:
        """The result as an object; empty if it is cut or none."""
        return _object(self.result)

    def listed_paths(self) -> list[str]:
        """Names that a listing shows, cut or not."""
        return [_unescaped(path) for path in _PATH.findall(self.result)][1:]


def conversation_of(body: JsonObject) -> tuple[str, list[Done]]:
    """The last thing the person wrote, and the calls made since, in their order."""
    messages = [as_object(item) for item in as_list(body.get("messages"))]
    places = [number for number, item in enumerate(messages) if item.get("role") == "user"]
    if not places:
        return "", []
    later = messages[places[-1] + 1 :]
    results = {
        as_text(item.get("tool_call_id")): _words(item.get("content"))
        for item in later
        if item.get("role") == "tool"
    }
    calls = [as_object(call) for item in later for call in as_list(item.get("tool_calls"))]
    done = [_done(call, results.get(as_text(call.get("id")), "")) for call in calls]
    return _words(messages[places[-1]].get("content")), done


def matches_of(call: Done) -> list[Match]:
    """What a search found, also in a result that is cut."""
    found = _MATCH.findall(call.result)
    return [
        Match(_unescaped(path), int(line), _unescaped(text).strip()) for path, line, text in found
    ]


def find_in(call: Done, done: list[Done], wanted: str) -> Match | None:
    """Where the wanted text stands in a result, its further pages included."""
    raw = _raw_text(call, done)[0]
    found = _TEXT.search(raw)
    text = _unescaped(found[1]) if found else raw
    if not wanted or wanted.casefold() not in text.casefold():
        return None
    path = _PATH.search(raw)
    start = _START_LINE.search(raw)
    lines = text.split("\n")
    number = next((n for n, line in enumerate(lines) if wanted.casefold() in line.casefold()), None)
    name = _unescaped(path[1]) if path else as_text(call.arguments.get("path")) or call.name
    if number is None:
        return Match(name, 0, wanted)
    first = int(start[1]) if start else 1
    return Match(name, first + number, _around(lines[number].strip(), wanted))


def next_page(done: list[Done], candidates: list[Done]) -> "JsonObject | None":
    """Arguments of the `evidence_read` that reads on in the first result not read to its end."""
    for call in candidates:
        handle, offset = _raw_text(call, done)[1:]
        if call.name != "evidence_read" and handle and offset is not None:
            return {"handle": handle, "offset": offset}
    return None


def message_of(call: Done) -> str:
    """What went wrong with a call; empty if nothing did."""
    error = call.value().get("error")
    if isinstance(error, dict):
        return as_text(error.get("message")) or json.dumps(error)
    if isinstance(error, str):
        return error
    is_odd = call.result.lower().startswith(("error", "refused", "denied"))
    return call.result[:_QUOTE_CHARS] if is_odd else ""


def _raw_text(call: Done, done: list[Done]) -> tuple[str, str, int | None]:
    """The stored result as far as it is known, its handle, and the offset to read on at, if any."""
    notice = _NOTICE.search(call.result)
    handle = _HANDLE.search(notice[0]) if notice else None
    if notice is None or handle is None:
        return call.result, "", None
    raw = call.result[: notice.start()]
    given = _OFFSET.search(notice[0])
    offset: int | None = int(given[1]) if given else len(raw)
    for page in done:
        if page.name == "evidence_read" and page.arguments.get("handle") == handle[1]:
            text, offset = _page(page)
            raw += text
    return raw, handle[1], offset


def _page(page: Done) -> tuple[str, int | None]:
    """The text of a page and the offset of the next; a cut page is followed by its own rest."""
    value = page.value()
    if value:
        return as_text(value.get("text")), as_number(value.get("next_offset"))
    found = _TEXT.search(_NOTICE.sub("", page.result))
    text = _unescaped(found[1]) if found else ""
    start = as_number(page.arguments.get("offset")) or 0
    return text, (start + len(text) if text else None)


def _done(call: JsonObject, result: str) -> Done:
    function = as_object(call.get("function"))
    return Done(as_text(function.get("name")), _object(as_text(function.get("arguments"))), result)


def _object(text: str) -> JsonObject:
    try:
        return as_object(read_json(text))
    except NotJson:
        return {}


def _words(content: Json) -> str:
    if isinstance(content, str):
        return content
    return " ".join(as_text(as_object(part).get("text")) for part in as_list(content))


def _unescaped(text: str) -> str:
    """JSON string content as text; a broken escape at the end of a cut is dropped."""
    for end in (len(text), *range(len(text) - 1, max(len(text) - 7, 0), -1)):
        try:
            return str(json.loads(f'"{text[:end]}"', strict=False))
        except ValueError:
            continue
    return ""


def _around(line: str, wanted: str) -> str:
    """The line, or the part of a long one around what was wanted."""
    if len(line) <= _QUOTE_CHARS:
        return line
    start = max(line.casefold().find(wanted.casefold()) - _QUOTE_CHARS // 2, 0)
    return line[start : start + _QUOTE_CHARS]
