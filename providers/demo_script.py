"""What the demo model does: a script, no AI, so that Umbel can be tried without a key.

It searches for the request's quoted text (or longest telling word), reads the files it names, reads
on where a result is cut, and quotes, compares or writes. What it cannot do it says. Everything
follows from the messages: it keeps no state.
"""

from dataclasses import dataclass
from typing import Final

from providers import demo_words
from providers.demo_progress import Progress, forms_of, path_of
from providers.demo_results import (
    Conversation,
    Done,
    conversation_of,
    message_of,
    next_page,
    page_at,
)
from providers.demo_wish import Wish, mentioned, wish_of
from providers.demo_words import INTRO
from providers.shapes import JsonObject, as_list, as_object, as_text

__all__ = ["INTRO", "DemoCall", "DemoReply", "read_request"]

_MAX_NAMED: Final = 4
_MAX_READS: Final = 3
_MAX_SEARCHES: Final = 3
_MAX_PAGES: Final = 40
_PAGE_CHARS: Final = 16_000
_MAX_CALLS: Final = 120
_MAX_MATCHES: Final = 200


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


def read_request(body: JsonObject) -> DemoReply:
    """The reply to a Chat Completions request body."""
    functions = [as_object(as_object(tool).get("function")) for tool in as_list(body.get("tools"))]
    offered = {as_text(function.get("name")) for function in functions}
    told: Conversation = conversation_of(body)
    wish = wish_of(told.request, told.earlier, may_write="write_file" in offered)
    return _reply(Progress(wish, told.done, offered))


def _reply(progress: Progress) -> DemoReply:
    wish, done = progress.wish, progress.done
    if len(done) >= _MAX_CALLS:
        return DemoReply(f"{INTRO} I stop here: {len(done)} calls are enough for a demonstration.")
    if wish.beyond and (wish.target or not (wish.files or wish.quotes)):
        return DemoReply(demo_words.beyond(wish))
    if not done:
        return _begin(progress)
    writes = progress.calls("write_file")
    if writes:
        return DemoReply(demo_words.written(progress, writes[-1]))
    calls = [call for call in _next_calls(progress) if call.name in progress.offered]
    return DemoReply("", tuple(calls)) if calls else _conclude(progress)


def _begin(progress: Progress) -> DemoReply:
    wish = progress.wish
    if wish.target and wish.text:
        arguments: JsonObject = {"path": wish.target, "text": wish.text}
        return DemoReply(f"{INTRO} I write the text.", (DemoCall("write_file", arguments),))
    is_compared = wish.is_comparison and len(wish.files) > 1
    queries = () if is_compared and not wish.quotes else wish.first_queries()
    wanted = [_search(wish, query) for query in queries]
    wanted += [DemoCall("read_file", {"path": path}) for path in wish.files[:_MAX_NAMED]]
    wanted.append(DemoCall("list_files", {"path": "."}))
    calls = tuple(call for call in wanted if call.name in progress.offered)
    if not calls:
        said = f"You wrote: “{wish.request[:300]}”. I have no tools to look further."
        return DemoReply(f"{INTRO} {said} {demo_words.LIMITS}")
    looks = [f"look for {', '.join(f'“{query}”' for query in queries)}"] if queries else []
    looks += [f"read {', '.join(wish.files[:_MAX_NAMED])}"] if wish.files else []
    return DemoReply(f"{INTRO} I {' and '.join(looks or ['look'])} in the workspace.", calls)


def _search(wish: Wish, query: str) -> DemoCall:
    limit: JsonObject = {"max_matches": _MAX_MATCHES} if wish.target else {}
    return DemoCall("search_files", {"query": query, **limit})


def _next_calls(progress: Progress) -> list[DemoCall]:
    """What to do next: the first step that there is something to do in."""
    if progress.wish.is_comparison and len(progress.wish.files) > 1:
        return _read_named(progress) or _page_on(progress, progress.reads()[:2])
    steps = (_read_named, _page_search, _read_match, _find_in_cut, _search_more, _read_large)
    return next(filter(None, (step(progress) for step in steps)), [])


def _read_named(progress: Progress) -> list[DemoCall]:
    """Read listed files that the request names without a dot in them."""
    named = mentioned(progress.wish.request, [path for path, _ in progress.listed()])
    paths = [path for path in named if path not in progress.tried()]
    return [DemoCall("read_file", {"path": path}) for path in paths[:_MAX_NAMED]]


def _page_search(progress: Progress) -> list[DemoCall]:
    """Know a search to its end, if all matches are to be written or none is seen yet."""
    if progress.wish.target or progress.found() is None:
        return _page_on(progress, progress.calls("search_files"))
    return []


def _page_on(progress: Progress, results: list[Done]) -> list[DemoCall]:
    if len(progress.calls("evidence_read")) >= _MAX_PAGES:
        return []
    pages = (next_page(call, progress.done) for call in results)
    return [DemoCall("evidence_read", {**page, "limit": _PAGE_CHARS}) for page in pages if page]


def _read_match(progress: Progress) -> list[DemoCall]:
    """Read the best file that a search found, to quote it."""
    found = progress.found()
    if found is None or progress.hits(found[0]) or len(progress.reads()) >= _MAX_READS:
        return []
    if progress.wish.target or any(call.handle() for call in progress.reads()):
        return []  # all matches are written as they are; in a cut file the text is looked for
    matches, tried = progress.matches(found[0]), progress.tried()
    path = next((match.path for match in matches if match.path not in tried), None)
    failed = sum(bool(message_of(call)) for call in progress.calls("read_file"))
    return [DemoCall("read_file", {"path": path})] if path and failed < _MAX_READS else []


def _find_in_cut(progress: Progress) -> list[DemoCall]:
    """Look for the text in files that are shown only in part: as written, then in other cases."""
    if "evidence_read" not in progress.offered:
        return []
    for query in progress.queries():
        if progress.matches(query) and progress.wish.target:
            continue
        for call in progress.reads():
            if call.handle() and not progress.hits(query):
                calls = _find(progress, call.handle(), query)
                if calls:
                    return calls
    return []


def _find(progress: Progress, handle: str, query: str) -> list[DemoCall]:
    forms = forms_of(query)
    around = (page_at(handle, progress.done, form) for form in forms)
    page = next((page for page in around if page), None)
    if page:
        seen = [call.arguments for call in progress.calls("evidence_read")]
        return [] if page in seen else [DemoCall("evidence_read", page)]
    sought = {
        call.arguments.get("find")
        for call in progress.calls("evidence_read")
        if call.arguments.get("handle") == handle
    }
    left = [form for form in forms if form not in sought]
    some = left[:1] if len(left) == len(forms) else left
    return [
        DemoCall("evidence_read", {"handle": handle, "offset": 0, "find": form, "limit": 400})
        for form in some
    ]


def _search_more(progress: Progress) -> list[DemoCall]:
    """Try the names of files that are not there, and the next longest words, once."""
    wish, searched = progress.wish, progress.queries()
    if progress.found() or wish.quotes or len(searched) > 1:
        return []
    read = {path_of(call) for call in progress.reads()}
    missing = [path for path in wish.files if path not in read]
    words = [word for word in (*missing, *wish.words) if word not in searched]
    return [_search(wish, word) for word in words[:_MAX_SEARCHES]]


def _read_large(progress: Progress) -> list[DemoCall]:
    """Read files that were too large to be searched."""
    if progress.found():
        return []
    paths = [path for path in progress.too_large_to_search() if path not in progress.tried()]
    room = max(_MAX_READS - len(progress.reads()), 0)
    return [DemoCall("read_file", {"path": path}) for path in paths[:room]]


def _conclude(progress: Progress) -> DemoReply:
    wish, found = progress.wish, progress.found()
    is_compared = wish.is_comparison and len(progress.reads()) > 1
    if wish.target and (found or is_compared):
        text = (
            f"{demo_words.comparison(progress)}\n"
            if is_compared or found is None
            else demo_words.report_text(progress, found[0])
        )
        return DemoReply("", (DemoCall("write_file", {"path": wish.target, "text": text}),))
    if is_compared:
        return DemoReply(demo_words.comparison_answer(progress))
    if found:
        return DemoReply(demo_words.place_found(progress))
    if progress.reads() and not wish.target:
        return DemoReply(demo_words.files_quoted(progress))
    return DemoReply(demo_words.nothing_found(progress))
