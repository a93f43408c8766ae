"""What tools have answered the demo model so far, read leniently: whole, cut, paged or an error."""

import json
import re
from dataclasses import dataclass
from typing import Final

from loop.transcript import MISTAKES
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
_SIZED: Final = re.compile(
    rf'"path"\s*:\s*{_STRING}\s*,\s*"kind"\s*:\s*"file"\s*,\s*"size_bytes"\s*:\s*(\d+)'
)
_SKIPPED: Final = re.compile(rf"{_STRING}\s*:\s*(\d+)")
_CUT: Final = re.compile(r'"cut"\s*:\s*true')
_NEW_LINE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\n")
_CLOSING: Final = re.compile(r'(?<!\\)(?:\\\\)*(?:\\n|")')
_BEFORE_HIT: Final = 400
_HIT_CHARS: Final = 1200
_TEXT: Final = re.compile(r'"text"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
_ERROR_CHARS: Final = 300
_NOTES: Final = frozenset(MISTAKES.values())
"""Words beside the conversation, which no person wrote."""


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

    def listed_files(self) -> list[tuple[str, int]]:
        """Files of a listing with their sizes in bytes."""
        return [(_unescaped(path), int(size)) for path, size in _SIZED.findall(self.result)]

    def handle(self) -> str:
        """Under which a result that is cut can be read on; empty if it is whole."""
        notice = _NOTICE.search(self.result)
        found = _HANDLE.search(notice[0]) if notice else None
        return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a request body tells."""

    request: str
    """The last thing the person wrote."""
    earlier: str
    """What the person wrote before it."""
    done: list[Done]
    """The calls made since, in their order."""


def conversation_of(body: JsonObject) -> Conversation:
    """The request, and what was done for it so far."""
    messages = [as_object(item) for item in as_list(body.get("messages"))]
    places = [number for number, item in enumerate(messages) if _is_a_persons(item)]
    if not places:
        return Conversation("", "", [])
    later = messages[places[-1] + 1 :]
    results = {
        as_text(item.get("tool_call_id")): _words(item.get("content"))
        for item in later
        if item.get("role") == "tool"
    }
    calls = [as_object(call) for item in later for call in as_list(item.get("tool_calls"))]
    done = [_done(call, results.get(as_text(call.get("id")), "")) for call in calls]
    said = [_words(messages[place].get("content")) for place in places]
    return Conversation(said[-1], said[-2] if said[1:] else "", done)


def _is_a_persons(message: JsonObject) -> bool:
    return message.get("role") == "user" and _words(message.get("content")) not in _NOTES


def matches_of(call: Done, done: list[Done]) -> list[Match]:
    """What a search found, as far as its result is known."""
    found = _MATCH.findall(_raw_text(call, done)[0])
    return [
        Match(_unescaped(path), int(line), _unescaped(text).strip()) for path, line, text in found
    ]


def is_search_cut(call: Done, done: list[Done]) -> bool:
    """The search stopped at its limit, or its result is not known to its end."""
    raw, offset = _raw_text(call, done)
    return offset is not None or bool(_CUT.search(raw))


def skipped_of(call: Done, done: list[Done]) -> dict[str, int]:
    """Why a search left files out, and how many."""
    raw = _raw_text(call, done)[0]
    place = raw.rfind('"files_skipped"')
    found = _SKIPPED.findall(raw, raw.find("{", place)) if place >= 0 else []
    return {_unescaped(reason): int(count) for reason, count in found}


def text_of(call: Done, done: list[Done]) -> tuple[str, bool]:
    """The text of a file that was read, as far as it is known, and whether that is all of it."""
    raw, offset = _raw_text(call, done)
    found = _TEXT.search(raw)
    return (_unescaped(found[1]) if found else "", offset is None)


def find_in(call: Done, done: list[Done], wanted: str) -> tuple[int, list[str]] | None:
    """Number (from 0) of the first line of a file that holds the text, and the file's lines."""
    lines = text_of(call, done)[0].split("\n")
    folded = wanted.casefold()
    number = next((n for n, line in enumerate(lines) if folded in line.casefold()), None)
    return None if number is None else (number, lines)


def next_page(call: Done, done: list[Done]) -> "JsonObject | None":
    """Arguments of the `evidence_read` that reads on in a result; None at its end."""
    offset = _raw_text(call, done)[1]
    return None if offset is None else {"handle": call.handle(), "offset": offset}


def page_at(handle: str, done: list[Done], wanted: str) -> "JsonObject | None":
    """Arguments of the `evidence_read` around a hit of `find`; None without one."""
    hit = _hit(handle, done, wanted)
    if hit is None:
        return None
    return {"handle": handle, "offset": max(0, hit - _BEFORE_HIT), "limit": _HIT_CHARS}


def line_at(handle: str, done: list[Done], wanted: str) -> str:
    """The line around a hit, “…” where it is not known to its end; empty if it was not read."""
    hit, asked = _hit(handle, done, wanted), page_at(handle, done, wanted)
    pages = [page for page in done if page.name == "evidence_read" and page.arguments == asked]
    if hit is None or asked is None or not pages:
        return ""
    text = _page(pages[-1])[0]
    at = min(hit, _BEFORE_HIT)
    starts = [match.end() for match in _NEW_LINE.finditer(text, 0, at)]
    head = _TEXT.search(text, 0, at) if not starts else None
    start = starts[-1] if starts else (head.start(1) if head else 0)
    closing = _CLOSING.search(text, at + len(wanted))
    end = closing.start() if closing else len(text)
    before = "" if starts or head else "…"
    return f"{before}{_unescaped(text[start:end]).strip()}{'' if closing else '…'}"


def _hit(handle: str, done: list[Done], wanted: str) -> int | None:
    forms = (wanted, json.dumps(wanted, ensure_ascii=False)[1:-1])
    for page in done:
        given = page.arguments
        if page.name != "evidence_read" or given.get("handle") != handle:
            continue
        text, offset = _TEXT.search(page.result), _OFFSET.search(page.result)
        is_hit = given.get("find") == wanted and text and _unescaped(text[1]).startswith(forms)
        if is_hit and offset:
            return int(offset[1])
    return None


def message_of(call: Done) -> str:
    """What went wrong with a call; empty if nothing did."""
    error = call.value().get("error")
    if isinstance(error, dict):
        return as_text(error.get("message")) or json.dumps(error)
    if isinstance(error, str):
        return error
    is_odd = call.result.lower().startswith(("error", "refused", "denied"))
    return call.result[:_ERROR_CHARS] if is_odd else ""


def _raw_text(call: Done, done: list[Done]) -> tuple[str, int | None]:
    """The stored result as far as it is known, and the offset to read on at, if any."""
    handle = call.handle()
    notice = _NOTICE.search(call.result)
    if notice is None or not handle:
        return call.result, None
    raw = call.result[: notice.start()]
    given = _OFFSET.search(notice[0])
    offset: int | None = int(given[1]) if given else len(raw)
    for page in done:
        given_to = page.arguments
        is_next = (given_to.get("handle"), given_to.get("offset")) == (handle, offset)
        if page.name == "evidence_read" and is_next and "find" not in given_to:
            text, offset = _page(page)
            raw += text
    return raw, offset


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
