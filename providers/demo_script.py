"""What the demo model does: a script, no AI, so that Umbel can be tried without a key.

It looks for the request's quoted text (or longest word), reads where it stands, quotes it, and
writes a file if the request names one. Everything follows from the messages: it keeps no state.
"""

import re
from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from providers.demo_results import (
    Done,
    Match,
    conversation_of,
    find_in,
    matches_of,
    message_of,
    next_page,
)
from providers.shapes import JsonObject, as_list, as_object, as_text

INTRO: Final = "I am the demo model (scripted, no AI)."
_MAX_READS: Final = 3
_MAX_PAGES: Final = 200
_MAX_PAGES_WITH_MATCH: Final = 25
_MAX_CALLS: Final = 250
_QUERY_CHARS: Final = 200
_QUOTED: Final = re.compile(r"\"([^\"]+)\"|“([^”]+)”|`([^`]+)`|(?<!\w)'([^']+)'(?!\w)")
_IMPERATIVE: Final = r"(?:^|[.,;:!\n]\s*|\b(?:and|then|please|you)\s+)"
_FILE: Final = (
    r"(?:the\s+|a\s+)?(?:new\s+)?(?:file\s+)?(?:named\s+|called\s+)?[\"“`']?([\w./-]*\w\.\w+)"
)
_WRITE: Final = re.compile(
    rf"{_IMPERATIVE}(?:write|save|put|store)\b.*?\b(?:in|into|to|as)\s+{_FILE}",
    re.IGNORECASE | re.DOTALL,
)
_CREATE: Final = re.compile(rf"{_IMPERATIVE}(?:create|write|make)\s+{_FILE}", re.IGNORECASE)
_SEARCH: Final = re.compile(r"\b(?:search|find|look|grep|where|which)\b", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W_][\w-]*")
_COMMON: Final = frozenset((
    "search", "find", "look", "where", "which", "what", "write", "save", "result", "results",
    "file", "files", "folder", "workspace", "please", "tell", "about", "line", "lines", "text",
    "there", "contains", "containing", "mention", "mentions", "mentioned", "says", "does",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class DemoCall:
    """A tool call the script makes."""

    name: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class DemoReply:
    """One reply: words, calls, or both."""

    text: str
    calls: tuple[DemoCall, ...] = ()


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the script takes the request to mean."""

    wanted: str
    target: str | None
    """File to write."""
    text: str | None
    """What to write; None: what is found."""


def reply_to(request: str, done: list[Done], offered: Set[str]) -> DemoReply:
    """The next reply, after the calls that were made for this request."""
    wish = _wish_of(request, offered)
    if len(done) >= _MAX_CALLS:
        return DemoReply(f"{INTRO} I stop here: {len(done)} calls are enough for a demonstration.")
    if not done:
        return _begin(request, wish, offered)
    writes = [call for call in done if call.name == "write_file"]
    if writes:
        return _report_write(writes[-1])
    found = _found_in_reads(done, wish.wanted)
    match = next(iter(_matches(done, wish)), None)
    if found is None:
        call = _look_further(done, wish, offered)
        if call is not None:
            return DemoReply("", (call,))
        found = match
    return _conclude(found, done, wish, offered)


def _wish_of(request: str, offered: Set[str]) -> _Wish:
    named = _WRITE.search(request) or _CREATE.search(request)
    target = named[1] if named and "write_file" in offered else None
    quotes = ["".join(groups) for groups in _QUOTED.findall(request)]
    quotes = [quote for quote in quotes if quote != target]
    if target and quotes and not _SEARCH.search(request):
        return _Wish(quotes[0], target, quotes[0])
    words: list[str] = _WORD.findall(request.replace(target or "\0", " "))
    telling = [word for word in words if word.lower() not in _COMMON] or words
    wanted = quotes[0] if quotes else max(telling, key=len, default="")
    return _Wish(wanted.strip().split("\n")[0][:_QUERY_CHARS], target, None)


def _begin(request: str, wish: _Wish, offered: Set[str]) -> DemoReply:
    if wish.target and wish.text:
        arguments: JsonObject = {"path": wish.target, "text": wish.text}
        return DemoReply(f"{INTRO} I write the text.", (DemoCall("write_file", arguments),))
    wanted: dict[str, JsonObject] = {"list_files": {"path": "."}}
    if wish.wanted:
        wanted = {"search_files": {"query": wish.wanted}, **wanted}
    calls = tuple(DemoCall(name, given) for name, given in wanted.items() if name in offered)
    if not calls:
        return DemoReply(f"{INTRO} You wrote: “{request[:300]}”. I have no tools to look further.")
    return DemoReply(f"{INTRO} I look for “{wish.wanted}” in the workspace.", calls)


def _look_further(done: list[Done], wish: _Wish, offered: Set[str]) -> DemoCall | None:
    """Turn a page of a result that was cut, or read the next file that matches."""
    reads = [call for call in done if call.name == "read_file"]
    matches = _matches(done, wish)
    pages = sum(call.name == "evidence_read" for call in done)
    if "evidence_read" in offered and pages < (_MAX_PAGES_WITH_MATCH if matches else _MAX_PAGES):
        page = next_page(done, reads or ([] if matches else done))
        if page is not None:
            return DemoCall("evidence_read", page)
    tried = {call.arguments.get("path") for call in reads}
    paths = (match.path for match in matches if match.path not in tried)
    path = next(paths, None)
    if path is None or "read_file" not in offered or len(reads) >= _MAX_READS:
        return None
    return DemoCall("read_file", {"path": path})


def _matches(done: list[Done], wish: _Wish) -> list[Match]:
    return [
        match
        for call in done
        if call.name == "search_files"
        for match in matches_of(call)
        if match.path != wish.target
    ]


def _found_in_reads(done: list[Done], wanted: str) -> Match | None:
    readable = [call for call in done if call.name not in ("search_files", "list_files")]
    finds = (find_in(call, done, wanted) for call in readable if call.name != "evidence_read")
    return next((found for found in finds if found is not None), None)


def _conclude(found: Match | None, done: list[Done], wish: _Wish, offered: Set[str]) -> DemoReply:
    if found is None:
        return DemoReply(_nothing_found(done, wish))
    place = f"{found.path}:{found.line}" if found.line else found.path
    if wish.target and "write_file" in offered:
        arguments: JsonObject = {"path": wish.target, "text": f"{place}: {found.text}\n"}
        return DemoReply("", (DemoCall("write_file", arguments),))
    line = f", line {found.line}," if found.line else ""
    return DemoReply(f"{INTRO} In {found.path}{line} it says: “{found.text}”")


def _nothing_found(done: list[Done], wish: _Wish) -> str:
    words = [f"{INTRO} I found nothing for “{wish.wanted}”."]
    errors = [f"{call.name} failed: {problem}" for call in done if (problem := message_of(call))]
    words += errors[:2]
    names = [entry for call in done if call.name == "list_files" for entry in call.listed_paths()]
    if names:
        words.append(f"The workspace holds: {', '.join(names[:20])}.")
    return " ".join(words)


def _report_write(call: Done) -> DemoReply:
    problem, path = message_of(call), call.arguments.get("path")
    if problem:
        return DemoReply(f"{INTRO} I could not write {path}: {problem}")
    return DemoReply(f"{INTRO} I wrote {path}: “{str(call.arguments.get('text')).strip()}”")


def read_request(body: JsonObject) -> DemoReply:
    """The reply to a Chat Completions request body."""
    request, done = conversation_of(body)
    functions = [as_object(as_object(tool).get("function")) for tool in as_list(body.get("tools"))]
    return reply_to(request, done, {as_text(function.get("name")) for function in functions})
