"""What a call would change, as names that rules can be about.

A tool may say which of its arguments name that; of any other tool every text and number among the
arguments counts, for nobody can know. Each is written in one form: no spelling of it slips by.
"""

from collections.abc import Iterator, Mapping, Sequence

from umbel.strict_json import Json
from umbel.target_name import target_name


def targets_of(arguments: Mapping[str, Json], named: Sequence[str] | None) -> tuple[str, ...]:
    """The names, in the form of `target_name`, each once.

    Args:
        arguments: of the call.
        named: arguments that name what is changed; None: the tool does not say.
    """
    if named is None:
        texts = _texts(list(arguments.values()))
    else:
        texts = _texts([arguments[name] for name in named if name in arguments])
    return tuple(dict.fromkeys(target_name(text) for text in texts))


def _texts(values: Sequence[Json]) -> Iterator[str]:
    for value in values:
        match value:
            case str():
                yield value
            case bool() | None:
                pass
            case float() if value.is_integer():
                yield str(int(value))
            case int() | float():
                yield str(value)
            case list():
                yield from _texts(value)
            case dict():
                yield from value
                yield from _texts(list(value.values()))
