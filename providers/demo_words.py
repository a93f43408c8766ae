"""What the demo model says in the end: what it found, what it left out, what it cannot do."""

from typing import Final

from providers.demo_progress import Progress, path_of
from providers.demo_quote import only_in, shortened
from providers.demo_results import Done, message_of, text_of
from providers.demo_wish import Wish

INTRO: Final = "I am the demo model (scripted, no AI)."
_NEEDS_A_MODEL: Final = (
    "Set OPENAI_API_KEY, or UMBEL_MODEL_BASE_URL for an endpoint of your own, to ask a model."
)
LIMITS: Final = (
    "I am a script: I search for words, read and quote files, compare lines, and write what is "
    f"quoted or found. I cannot understand more than that. {_NEEDS_A_MODEL}"
)


def beyond(wish: Wish) -> str:
    """The refusal of what a script cannot do."""
    nothing = f" I wrote nothing to {wish.target}." if wish.target else ""
    return (
        f"{INTRO} I am a script; I cannot {wish.beyond}, so I did not.{nothing} I can write only "
        f"text that the request quotes, or what a search finds. {_NEEDS_A_MODEL}"
    )


def place_found(progress: Progress) -> str:
    """The best place, quoted."""
    found = progress.found()
    if found is None:
        return ""
    query, match = found
    line = f", line {match.line}," if match.line else ""
    missed = [wanted for wanted in progress.queries() if wanted != query]
    before = missed[: progress.queries().index(query)]
    without = (
        f" I found nothing for {_names(before)}; I looked for “{query}” then." if before else ""
    )
    where = f"In {match.path}{line} it says: “{shortened(match.text, query)}”"
    absent = _absent(progress, query)
    said = f"{INTRO}{without} {_apology(progress.wish)}".rstrip()
    return _joined(said, absent, where, _skipped(progress))


def files_quoted(progress: Progress) -> str:
    """How each file that was read begins, where nothing was found in them."""
    said = [INTRO, _apology(progress.wish)]
    if progress.queries():
        said.append(f"I found nothing for {_names(progress.queries())}.")
    said += [_beginning(call, progress.done) for call in progress.reads()]
    return _joined(
        *said, *_problems(progress), _skipped(progress), "" if progress.wish.beyond else LIMITS
    )


def nothing_found(progress: Progress) -> str:
    """That nothing was found, and why that may mean little."""
    queries, target = progress.queries(), progress.wish.target
    nothing = f"I found nothing for {_names(queries)}." if queries else "I see nothing to look for."
    said = [INTRO, _apology(progress.wish), nothing, *_problems(progress), _skipped(progress)]
    if target:
        said.append(f"I wrote nothing to {target}.")
    names = [path for path, _ in progress.listed()]
    if names:
        more = ", …" if len(names) > 20 else ""
        said.append(f"The workspace holds: {', '.join(names[:20])}{more}.")
    return _joined(*said, LIMITS)


def comparison(progress: Progress) -> str:
    """The lines in which two files differ."""
    first, second = progress.reads()[:2]
    texts = [text_of(call, progress.done) for call in (first, second)]
    said = []
    for call, (text, is_whole) in zip((first, second), texts, strict=True):
        part = "" if is_whole else f" (only its first {len(text)} characters were compared)"
        said.append(f"{_beginning(call, progress.done)}{part}")
    for call, (text, _), (other, _) in (
        (first, texts[0], texts[1]),
        (second, texts[1], texts[0]),
    ):
        lines = only_in(text, other)
        said.append("\n".join((f"Only in {path_of(call)}:", *(lines or ["  nothing"]))))
    if not any(only_in(a[0], b[0]) for a, b in (texts, texts[::-1])):
        equal = texts[0][0] == texts[1][0]
        said.append("They are equal." if equal else "They differ in order or in empty lines only.")
    rest = [path_of(call) for call in progress.reads()[2:]]
    if rest:
        said.append(f"I compare two files at a time and left out {', '.join(rest)}.")
    return "\n".join(said)


def comparison_answer(progress: Progress) -> str:
    """The comparison, and what it is worth."""
    worth = f"I compare line by line; what the differences mean I cannot say. {_NEEDS_A_MODEL}"
    return f"{INTRO}\n{comparison(progress)}\n{worth}"


def report_text(progress: Progress, query: str) -> str:
    """Every match as the content of a file."""
    lines = [
        f"{match.path}:{match.line}: {match.text}" if match.line else f"{match.path}: {match.text}"
        for match in progress.all_matches(query)
    ]
    lines += filter(None, (_cut(progress), _skipped(progress)))
    return "\n".join([*lines, ""])


def written(progress: Progress, call: Done) -> str:
    """What became of the write."""
    problem, path = message_of(call), call.arguments.get("path")
    if problem:
        return f"{INTRO} I could not write {path}: {problem}"
    found = progress.found()
    if progress.wish.text is None and progress.wish.is_comparison:
        return f"{INTRO} I wrote the lines that differ to {path}."
    if progress.wish.text is not None or found is None:
        return f"{INTRO} I wrote {path}: “{shortened(str(call.arguments.get('text')).strip())}”"
    matches = progress.all_matches(found[0])
    count = f"{len(matches)} {'match' if len(matches) == 1 else 'matches'}"
    said = f"{INTRO} I wrote {path}: {count} for “{found[0]}”, one per line."
    first = f"The first is “{shortened(matches[0].text, found[0])}”"
    return _joined(said, first, _cut(progress), _skipped(progress))


def _beginning(call: Done, done: list[Done]) -> str:
    text = text_of(call, done)[0].strip()
    if not text:
        return f"{path_of(call)} is empty."
    begins = (
        "begins" if len(text) > len(shortened(text)) - 1 and shortened(text) != text else "says"
    )
    return f"{path_of(call)} {begins}: “{shortened(text)}”"


def _absent(progress: Progress, query: str) -> str:
    """Which files of the request do not hold what was found elsewhere."""
    holding = {hit.path for hit in progress.all_matches(query)}
    reads = [call for call in progress.reads() if path_of(call) in progress.wish.files]
    names = [path_of(call) for call in reads if path_of(call) not in holding]
    return f"“{query}” is not in {', '.join(names)}." if names else ""


def _problems(progress: Progress) -> list[str]:
    errors = ((call, message_of(call)) for call in progress.done)
    failed = [
        f"{call.name}{f' of {path_of(call)}' if call.name == 'read_file' else ''} failed: {problem}"
        for call, problem in errors
        if problem
    ]
    unread = [
        f"{path_of(call)} was shown only in part."
        for call in progress.reads()
        if call.handle() and "evidence_read" not in progress.offered
    ]
    return failed[:3] + unread


def _skipped(progress: Progress) -> str:
    reasons = progress.skipped()
    if not reasons:
        return ""
    count = sum(reasons.values())
    why = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
    read = [path_of(call) for call in progress.reads() if call.handle()]
    large = [path for path in progress.too_large_to_search() if path in read]
    also = f" I read {', '.join(large)} instead." if large else ""
    return f"The search left out {count} {'file' if count == 1 else 'files'} ({why}).{also}"


def _cut(progress: Progress) -> str:
    return "The search was cut: there may be more matches." if progress.is_cut() else ""


def _apology(wish: Wish) -> str:
    return f"I am a script; I cannot {wish.beyond}. {_NEEDS_A_MODEL}" if wish.beyond else ""


def _names(queries: list[str]) -> str:
    return ", ".join(f"“{query}”" for query in queries)


def _joined(*said: str) -> str:
    return " ".join(part for part in said if part)
