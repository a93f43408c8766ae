"""One pass over a JSON text that comes in parts; what is not asked for is only counted through."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Final

from tools.json_path import Elements, Every, Name, Step, selects_one
from umbel.errors import InvalidInput

Take = Callable[[str], None]

_SPACE: Final = re.compile(r"[ \t\r\n]*+")
_IN_STRING: Final = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_TO_STRUCTURE: Final = re.compile(r'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
"""Up to the next bracket, over whole strings; a string that goes on in the next part stays."""
_SCALAR: Final = re.compile(r"[^\s,\]}]*+")
_SHORT_CHARS: Final = 100_000


def find_values(parts: Iterator[str], steps: tuple[Step, ...], take: "Taker") -> None:
    """Give `take` the text of every value that the path leads to.

    A path to one value is not followed behind it.

    Raises:
        InvalidInput: the text is no JSON as far as it was read.
    """
    _Walk(_Text(parts), take, is_over_at_first=selects_one(steps)).follow(steps)


class Taker:
    """Takes the texts of the values that are found, one after the other, in pieces."""

    def begin(self) -> None:
        """Another value begins."""

    def piece(self, text: str) -> None:
        """The next piece of it."""


class _Found(Exception):
    """The one value has been found: the rest need not be read."""


class _Walk:
    def __init__(self, text: "_Text", take: Taker, *, is_over_at_first: bool) -> None:
        self._text = text
        self._take = take
        self._is_over_at_first = is_over_at_first

    def follow(self, steps: tuple[Step, ...]) -> None:
        try:
            self._value(steps)
        except _Found:
            return
        self._text.expect_end()

    def _value(self, steps: tuple[Step, ...]) -> None:
        if not steps:
            self._take.begin()
            self._text.pass_value(self._take.piece)
            if self._is_over_at_first:
                raise _Found
            return
        match self._text.next_char():
            case "{" if isinstance(steps[0], Name | Every):
                self._members(steps[0], steps[1:])
            case "[" if isinstance(steps[0], Elements | Every):
                self._elements(steps[0], steps[1:])
            case _:
                self._text.pass_value()

    def _members(self, step: Name | Every, rest: tuple[Step, ...]) -> None:
        text = self._text
        text.expect("{")
        if text.accept("}"):
            return
        while True:
            name = text.name()
            text.expect(":")
            if isinstance(step, Every) or step.name == name:
                self._value(rest)
            else:
                text.pass_value()
            if not text.accept(","):
                break
        text.expect("}")

    def _elements(self, step: Elements | Every, rest: tuple[Step, ...]) -> None:
        text = self._text
        text.expect("[")
        if text.accept("]"):
            return
        at = 0
        while True:
            if isinstance(step, Every) or step.start <= at < step.stop:
                self._value(rest)
            else:
                text.pass_value()
            at += 1
            if not text.accept(","):
                break
        text.expect("]")


class _Text:
    """The text that is still to be read; about a part of it is held."""

    def __init__(self, parts: Iterator[str]) -> None:
        self._parts = parts
        self._held = ""
        self._at = 0
        self._passed = 0

    def next_char(self) -> str:
        """The next character that is no space, which stays; empty at the end."""
        while True:
            self._at = self._end_of(_SPACE)
            if self._at < len(self._held):
                return self._held[self._at]
            if not self._more():
                return ""

    def accept(self, char: str) -> bool:
        """Pass `char` if it is the next one."""
        is_next = self.next_char() == char
        self._at += is_next
        return is_next

    def expect(self, char: str) -> None:
        """Pass `char`.

        Raises:
            InvalidInput: something else comes next.
        """
        if not self.accept(char):
            raise self._broken(f"{char} is expected")

    def expect_end(self) -> None:
        """See that nothing follows.

        Raises:
            InvalidInput: something does.
        """
        if self.next_char():
            raise self._broken("its end is expected")

    def name(self) -> str:
        """Pass the name of a member."""
        if self.next_char() != '"':
            raise self._broken("a name is expected")
        return str(self._parse(self._short(self._pass_string)))

    def pass_value(self, take: Take | None = None) -> None:
        """Pass a value; `take` gets its text."""
        match self.next_char():
            case '"':
                self._pass_string(take)
            case "{" | "[":
                self._pass_nested(take)
            case "" | "}" | "]" | "," | ":":
                raise self._broken("a value is expected")
            case _:
                text = self._short(lambda keep: self._pass_while(_SCALAR, keep))
                self._parse(text)
                if take is not None:
                    take(text)

    def _short(self, pass_over: Callable[[Take], None]) -> str:
        """What is passed over, which cannot be long."""
        kept: list[str] = []

        def keep(piece: str) -> None:
            kept.append(piece)
            if sum(map(len, kept)) > _SHORT_CHARS:
                raise self._broken(f"something shorter than {_SHORT_CHARS} characters is expected")

        pass_over(keep)
        return "".join(kept)

    def _parse(self, text: str) -> object:
        try:
            return json.loads(text, strict=False)
        except ValueError as error:
            raise self._broken("a value is expected before what stands") from error

    def _pass_string(self, take: Take | None) -> None:
        self._pass_chars(1, take)
        while True:
            self._pass_held(_IN_STRING, take)
            if self._held.startswith('"', self._at):
                self._pass_chars(1, take)
                return
            if not self._more():
                raise self._broken("it ends inside a text")

    def _pass_nested(self, take: Take | None) -> None:
        depth = 0
        while True:
            self._pass_while(_TO_STRUCTURE, take)
            match self.next_char():
                case '"':
                    self._pass_string(take)
                case "{" | "[":
                    depth += 1
                    self._pass_chars(1, take)
                case "}" | "]":
                    depth -= 1
                    self._pass_chars(1, take)
                    if depth == 0:
                        return
                case _:
                    raise self._broken("it ends inside a value")

    def _pass_while(self, pattern: re.Pattern[str], take: Take | None) -> None:
        """Pass what the pattern matches, over the borders of parts."""
        while True:
            self._pass_held(pattern, take)
            if self._at < len(self._held) or not self._more():
                return

    def _pass_held(self, pattern: re.Pattern[str], take: Take | None) -> None:
        self._pass_chars(self._end_of(pattern) - self._at, take)

    def _pass_chars(self, count: int, take: Take | None) -> None:
        if take is not None and count:
            take(self._held[self._at : self._at + count])
        self._at += count

    def _end_of(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self._held, self._at)
        return self._at if match is None else match.end()

    def _more(self) -> bool:
        """Get the next part; what has been passed is forgotten."""
        part = next(self._parts, "")
        self._passed += self._at
        self._held, self._at = self._held[self._at :] + part, 0
        return bool(part)

    def _broken(self, expectation: str) -> InvalidInput:
        place = self._passed + self._at
        return InvalidInput(
            f"the text of the result is no JSON: {expectation} at character {place}"
        )
