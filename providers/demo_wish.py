"""What the demo model takes a request to mean: by patterns, since it understands nothing."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from providers.demo_quote import shortened

_QUERY_CHARS: Final = 200
_QUOTED: Final = re.compile(r"\"([^\"]+)\"|“([^”]+)”|`([^`]+)`|(?<!\w)'([^']+)'(?!\w)")
_IMPERATIVE: Final = r"(?:^|[.,;:!?\n]\s*|\b(?:and|then|please|you)\s+)"
_FILE: Final = (
    r"(?:the\s+|a\s+)?(?:new\s+)?(?:file\s+)?(?:named\s+|called\s+)?[\"“`']?([\w./-]*\w\.\w+)"
)
_PUT: Final = r"(?:write|save|put|store)"
_WRITE: Final = re.compile(
    rf"{_IMPERATIVE}{_PUT}\b.*?\b(?:in|into|to|as)\s+{_FILE}", re.IGNORECASE | re.DOTALL
)
_CREATE: Final = re.compile(rf"{_IMPERATIVE}(?:create|write|make)\s+{_FILE}", re.IGNORECASE)
_GIVEN: Final = re.compile(
    rf"(?:{_IMPERATIVE}{_PUT}|\b(?:with|containing|saying|says|reads))\s+"
    r"(?:(?:the|this|exact|exactly|text|words?|line|sentence|string|contents?)[\s:]+)*[\"“`']",
    re.IGNORECASE,
)
_FOUND: Final = re.compile(
    rf"{_IMPERATIVE}(?:search|find|look|grep|locate)\b"
    rf"|\b{_PUT}\s+(?:all\s+)?(?:the\s+|your\s+)?"
    r"(?:results?|findings?|match\w*|it|them|that|those|lines?|answers?|what|differences?)\b",
    re.IGNORECASE,
)
_COMPOSE: Final = re.compile(
    rf"{_IMPERATIVE}((?:summari[sz]e|translate|rewrite|refactor|improve|fix|implement|draft"
    r"|compose|calculate|compute|count|invent|plan|delete|rename|run)\b"
    r"|write\s+(?:me\s+)?(?:an?|some)\s+(?!new\s+file|file)\w+)",
    re.IGNORECASE,
)
_COMPARE: Final = re.compile(r"\b(?:compare|differ\w*|diff|versus|vs|contrast)\b", re.IGNORECASE)
_NAME: Final = re.compile(r"(?<![\w./:@-])(?:\.?[\w-][\w./-]*)?\w\.[A-Za-z]\w{0,9}(?!\w|\.\w)")
_NO_NAMES: Final = frozenset(("e.g", "i.e"))
_WORD: Final = re.compile(r"[^\W_][\w-]*")
_SENTENCE_END: Final = re.compile(r"[.!?;]+(?:\s|$)|\n")
_MIN_WORD: Final = 3
_COMMON: Final = frozenset((
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been",
    "before", "begin", "between", "but", "by", "can", "compare", "comparison", "contain",
    "contained", "containing", "contains", "could", "create", "did", "differ", "difference",
    "differences", "different", "differs", "do", "does", "done", "each", "end", "every",
    "everything", "exactly", "explain", "explained", "explaining", "explains", "file", "files",
    "find", "finding", "findings", "first", "folder", "folders", "for", "found", "from", "give",
    "grep", "had", "happen", "happened", "happening", "happens", "has", "have", "hello", "here",
    "how", "identify", "if", "in", "into", "is", "it", "its", "kind", "last", "line", "lines",
    "list", "locate", "look", "looking", "make", "many", "match", "matches", "matching", "me",
    "mean", "meaning", "means", "mention", "mentioned", "mentions", "more", "most", "much", "my",
    "name", "named", "new", "not", "of", "on", "one", "open", "our", "out", "page", "pages",
    "paging", "please", "print", "put", "quote", "read", "reading", "report", "result", "results",
    "same", "save", "saved", "say", "saying", "says", "search", "searching", "see", "should",
    "show", "some", "store", "such", "summarise", "summarize", "tell", "text", "than", "that",
    "the", "their", "them", "then", "there", "these", "they", "thing", "this", "those", "through",
    "to", "translate", "until", "up", "use", "used", "uses", "using", "was", "we", "were", "what",
    "when", "where", "whether", "which", "who", "whole", "why", "will", "with", "word", "words",
    "workspace", "would", "write", "writing", "written", "you", "your",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wish:
    """What the script takes the request to ask for."""

    request: str
    files: tuple[str, ...]
    """Tokens that look like names of files to read, in their order."""
    quotes: tuple[str, ...]
    words: tuple[str, ...]
    """What else may be searched for, the longest first."""
    target: str | None
    """File to write."""
    text: str | None
    """What to write; None: what is found."""
    is_comparison: bool
    beyond: str
    """The words of the request that ask for more than a script can do; empty if none do."""

    def first_queries(self) -> tuple[str, ...]:
        """What to search for at first."""
        return self.quotes[:3] or self.words[:1]


def wish_of(request: str, earlier: str, *, may_write: bool) -> Wish:
    """The request read; `earlier` is what the person wrote before, for “it”."""
    named = _WRITE.search(request) or _CREATE.search(request)
    target = named[1] if named else None
    quoted = ["".join(groups) for groups in _QUOTED.findall(request)]
    quotes = [quote.strip().split("\n")[0][:_QUERY_CHARS] for quote in quoted if quote != target]
    bare = _QUOTED.sub(" ", request)
    files = [name for name in file_names(request) if name != target]
    if not files and re.search(r"\b(?:it|them)\b", bare):
        files = file_names(earlier)
    for name in (*files, target or ""):
        bare = bare.replace(name, " ") if name else bare
    text = next((quote for quote in quoted if quote != target), None)
    is_given = bool(target and text and _GIVEN.search(request))
    return Wish(
        request=request,
        files=tuple(files),
        quotes=tuple(filter(None, quotes)),
        words=tuple(telling_words(_COMPOSE.sub(" ", bare))),
        target=target if may_write else None,
        text=text if is_given and may_write else None,
        is_comparison=bool(_COMPARE.search(bare)),
        beyond=_beyond(request, target, is_given=is_given),
    )


def file_names(text: str) -> list[str]:
    """Tokens that look like names of files, each once."""
    names = (match[0].removeprefix("./") for match in _NAME.finditer(text))
    return list(dict.fromkeys(name for name in names if name.lower() not in _NO_NAMES))


def mentioned(request: str, listed: Iterable[str]) -> list[str]:
    """Which of the listed files the request names, such as `Makefile`, which has no dot."""
    tokens = {token.rstrip(".,;:!?") for token in re.findall(r"[\w./-]+", request)}
    return [path for path in listed if path in tokens and ("." in path or not path.islower())]


def telling_words(text: str) -> list[str]:
    """Words that are neither common nor commands, the longest first."""
    words = dict.fromkeys(word for word in _WORD.findall(text) if len(word) >= _MIN_WORD)
    return sorted((word for word in words if word.lower() not in _COMMON), key=len, reverse=True)


def _beyond(request: str, target: str | None, *, is_given: bool) -> str:
    if is_given:
        return ""
    asked = _COMPOSE.search(request)
    if asked:
        phrase = _SENTENCE_END.split(request[asked.start(1) :], maxsplit=1)[0].strip()
        return f"{phrase[:1].lower()}{shortened(phrase[1:])}"
    is_known = _FOUND.search(request) or _COMPARE.search(request)
    return f"think of a text for {target}" if target and not is_known else ""
