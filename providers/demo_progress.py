"""How far the demo model has come with a request, derived from the calls made for it."""

import re
from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from providers.demo_quote import quoted, shortened
from providers.demo_results import (
    Done,
    Match,
    find_in,
    is_search_cut,
    line_at,
    matches_of,
    message_of,
    skipped_of,
)
from providers.demo_wish import Wish, file_names
from providers.shapes import as_text

_TOO_LARGE: Final = re.compile(r"larger than (\d+)")


@dataclass(frozen=True, slots=True)
class Progress:
    """A wish, the calls made for it in their order, and the tools there are."""

    wish: Wish
    done: list[Done]
    offered: Set[str]

    def calls(self, name: str) -> list[Done]:
        """The calls of one tool."""
        return [call for call in self.done if call.name == name]

    def reads(self) -> list[Done]:
        """Files that were read, those that failed left out; the file to write is none of them."""
        return [
            call
            for call in self.calls("read_file")
            if not message_of(call) and path_of(call) != self.wish.target
        ]

    def tried(self) -> set[str]:
        """Paths that need not be read again."""
        return {path_of(call) for call in self.calls("read_file")} | {self.wish.target or ""}

    def queries(self) -> list[str]:
        """What was searched for; what would be, if there is no search."""
        if "search_files" not in self.offered:
            return list(self.wish.first_queries())
        return [as_text(call.arguments.get("query")) for call in self.calls("search_files")]

    def matches(self, query: str) -> list[Match]:
        """What the searches for a query found; files that the request names come first."""
        found = [
            match
            for call in self.calls("search_files")
            if call.arguments.get("query") == query
            for match in matches_of(call, self.done)
            if match.path != self.wish.target
        ]
        return sorted(found, key=lambda match: match.path not in self.wish.files)

    def hits(self, query: str) -> list[Match]:
        """Where a query stands in the files that were read, also far down in one that is cut."""
        hits = [self._hit(call, query) for call in self.reads()]
        return [hit for hit in hits if hit is not None]

    def found(self) -> tuple[str, Match] | None:
        """The first query that was found, and the place to quote; a file's own text comes first."""
        for query in self.queries():
            places = self.hits(query) or self.matches(query)
            if places:
                return query, places[0]
        return None

    def all_matches(self, query: str) -> list[Match]:
        """Every place that is known: those of the search, and of files that it left out."""
        matches = self.matches(query)
        known = {match.path for match in matches}
        return matches + [hit for hit in self.hits(query) if hit.path not in known]

    def is_cut(self) -> bool:
        """More may match than is known."""
        return any(is_search_cut(call, self.done) for call in self.calls("search_files"))

    def skipped(self) -> dict[str, int]:
        """Why searches left files out, and how many."""
        reasons: dict[str, int] = {}
        for call in self.calls("search_files"):
            for reason, count in skipped_of(call, self.done).items():
                reasons[reason] = max(count, reasons.get(reason, 0))
        return reasons

    def listed(self) -> list[tuple[str, int]]:
        """Files that were listed, with their sizes in bytes."""
        return [entry for call in self.calls("list_files") for entry in call.listed_files()]

    def too_large_to_search(self) -> list[str]:
        """Listed files that the search left out because of their size."""
        limits = [int(found[1]) for reason in self.skipped() if (found := _TOO_LARGE.match(reason))]
        return [path for path, size in self.listed() if limits and size > min(limits)]

    def _hit(self, call: Done, query: str) -> Match | None:
        if not query:
            return None
        path, matches = path_of(call), self.matches(query)
        place = find_in(call, self.done, query)
        if place is not None and (place[0] + 1 < len(place[1]) or not call.handle()):
            number, lines = place
            return Match(path, number + 1, quoted(path, lines, number, query))
        for form in forms_of(query):
            line = line_at(call.handle(), self.done, form) if call.handle() else ""
            if line:
                number = next((m.line for m in matches if (m.path, m.text) == (path, line)), 0)
                return Match(path, number, shortened(line, form))
        return None


def path_of(call: Done) -> str:
    """The file that a call is about, written as the listing does."""
    path = as_text(call.arguments.get("path"))
    return next(iter(file_names(path)), path) if path.startswith("./") else path


def forms_of(query: str) -> list[str]:
    """Spellings to look for, where only the exact one is found."""
    return list(dict.fromkeys((query, query.lower(), query.upper(), query.capitalize())))
