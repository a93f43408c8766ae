"""What a call would change, as names that rules can be about.

A tool may say which of its arguments name that; of any other tool every text among the arguments
counts, for nobody can know. Each name is written in one form, so that no spelling of it slips by.
"""

import posixpath
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from umbel.strict_json import Json


def targets_of(arguments: Mapping[str, Json], named: Sequence[str] | None) -> tuple[str, ...]:
    """The names, in the form of `normal`, each once.

    Args:
        arguments: of the call.
        named: arguments that name what is changed; None: the tool does not say.
    """
    if named is None:
        texts = _texts(list(arguments.values()))
    else:
        texts = _texts([arguments[name] for name in named if name in arguments])
    return tuple(dict.fromkeys(normal(text) for text in texts))


def normal(name: str) -> str:
    """One spelling for all that mean the same: case, compatible letters, `.`, `..` and `//`."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()
    if not folded:
        return ""
    path = posixpath.normpath(folded.replace("\\", "/"))
    return path.replace("//", "/", 1) if path.startswith("//") else path


def _texts(values: Sequence[Json]) -> Iterator[str]:
    for value in values:
        match value:
            case str():
                yield value
            case list():
                yield from _texts(value)
            case dict():
                yield from value
                yield from _texts(list(value.values()))
            case _:
                pass
