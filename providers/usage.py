"""Token counts from wherever an endpoint puts them; unknown stays unknown, never zero."""

from typing import Final

from loop.response import Usage
from providers.shapes import JsonObject, as_number, as_object

_CHARS_PER_TOKEN: Final = 4  # rough, for estimates only
_INPUT: Final = ("prompt_tokens", "input_tokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens")
_CACHED: Final = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
_CACHED_PARENTS: Final = ("prompt_tokens_details", "input_tokens_details")
_REASONING_PARENTS: Final = ("completion_tokens_details", "output_tokens_details")


class UsageMeter:
    """Readings of one answer; running totals replace each other, they are never summed.

    Readings without any number above zero say nothing: some endpoints fill every chunk with them.
    """

    def __init__(self) -> None:
        self._last: JsonObject = {}
        self._input: int | None = None
        self._cached: int | None = None
        self._reasoning: int | None = None

    def add_chunk(self, chunk: JsonObject, choice: JsonObject) -> bool:
        """Take every reading of a chunk or a whole answer; True if one was new."""
        groq = as_object(chunk.get("x_groq"))
        is_new = False
        for place in (choice.get("usage"), groq.get("usage"), chunk.get("usage")):
            if place:  # most chunks have none
                is_new = self._add(as_object(place)) or is_new
        return is_new

    def _add(self, reading: JsonObject) -> bool:
        main = [_first(reading, names) for names in (_INPUT, _OUTPUT, ("total_tokens",))]
        if not any(main) or reading == self._last:
            return False
        self._last = reading
        self._input = main[0] or self._input
        self._cached = _larger(self._cached, _detail(reading, _CACHED_PARENTS, _CACHED))
        reasoning = _detail(reading, _REASONING_PARENTS, ("reasoning_tokens",))
        self._reasoning = _larger(self._reasoning, reasoning)
        return True

    def result(self) -> Usage:
        """The last reading, its missing third number worked out from the other two."""
        if not self._last:
            return Usage()
        given, output = _first(self._last, _INPUT), _first(self._last, _OUTPUT)
        total = _first(self._last, ("total_tokens",))
        if given is None and (output is None or total is None):
            given = self._input  # an earlier reading of the same request
        if given is None and output is not None and total is not None:
            given = _difference(total, output)
        if output is None and given is not None and total is not None:
            output = _difference(total, given)
        if total is None and given is not None and output is not None:
            total = given + output
        return Usage(
            input_tokens=given,
            output_tokens=output,
            total_tokens=total,
            cached_input_tokens=self._cached,
            reasoning_tokens=self._reasoning,
        )


def estimated(body_bytes: int, answer_chars: int) -> Usage:
    """A rough count for an answer that broke off before the endpoint reported any."""
    given, output = body_bytes // _CHARS_PER_TOKEN, -(-answer_chars // _CHARS_PER_TOKEN)
    return Usage(
        input_tokens=given, output_tokens=output, total_tokens=given + output, is_estimated=True
    )


def is_unknown(usage: Usage) -> bool:
    """True if no number was reported."""
    return usage == Usage()


def _first(reading: JsonObject, names: tuple[str, ...]) -> int | None:
    numbers = (as_number(reading.get(name)) for name in names)
    return next((number for number in numbers if number is not None and number >= 0), None)


def _detail(reading: JsonObject, parents: tuple[str, ...], names: tuple[str, ...]) -> int | None:
    found = [_first(as_object(reading.get(parent)), names) for parent in parents]
    found.append(_first(reading, names))
    return max((number for number in found if number is not None), default=None)


def _larger(one: int | None, other: int | None) -> int | None:
    """Details are merged: a later reading may leave them out or fill them with zero."""
    return other if one is None else max(one, other or 0)


def _difference(total: int, part: int) -> int | None:
    return total - part if total >= part else None
