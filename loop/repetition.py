"""Repetition: calls that bring nothing new, found by call *and* result in the record of a run.

Pure. The history is read from PostgreSQL before each decision, so that it holds across steps,
workers and restarts. What brings something new, such as the next page or a poll whose answer has
changed, is never a repetition, however often it comes.
"""

import hashlib
import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal, TypeAlias

from loop.policy import Policy

LONGEST_CYCLE: Final = 4
"""Different calls that a circle may consist of."""

COMPARED_CHARS: Final = 16_384
"""Longer arguments are compared by their hash: as bytes, not by what they mean."""

HASH_MARK: Final = "sha256:"

_Json: TypeAlias = "str | int | float | bool | list[_Json] | dict[str, _Json] | None"

Fingerprint: TypeAlias = tuple[str, str]
"""A tool and its arguments, in a form in which equal arguments are equal text."""


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call that has ended, or was refused by a rule: one that the model could learn from.

    One that nobody approved in time has errored.
    """

    step: int
    fingerprint: Fingerprint
    result: str
    """Hash of the whole result, not of what the prompt shows of it."""
    ended: Literal["returned", "errored", "refused"]
    is_change: bool
    """It is more than a read."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A call that is not run; the message is its result."""

    code: Literal["repeated_call", "repeated_failure"]
    message: str


class Repetition:
    """What of one reply only repeats the history; asked call by call, in the model's order."""

    def __init__(self, history: Sequence[PastCall], policy: Policy) -> None:
        self._unchanged = policy.repeat_unchanged
        self._calls = list(history)
        self._failed = failed_steps(history) if policy.repeat_failures else []
        self._is_failing = len(self._failed) >= max(policy.repeat_failures, 1)
        # Another tool may be the way out, but not one after the other for ever.
        self._is_stuck = len(self._failed) >= policy.repeat_failures + policy.corrections
        self._failing_tools = {call.fingerprint[0] for step in self._failed for call in step}

    def judge(self, fingerprint: Fingerprint, *, is_change: bool) -> Repeated | None:
        """Why the call would bring nothing new; None: run it, and count it from now on."""
        tool = fingerprint[0]
        if self._is_failing and (self._is_stuck or tool in self._failing_tools):
            return Repeated("repeated_failure", _failure_words(tool, len(self._failed)))
        if self._unchanged and fingerprint in circling(self._calls, self._unchanged):
            return Repeated("repeated_call", _repetition_words(tool))
        self._calls.append(self._assumed(fingerprint, is_change=is_change))
        return None

    def _assumed(self, fingerprint: Fingerprint, *, is_change: bool) -> PastCall:
        """A call of this very reply: it will bring what it brought last, as far as anyone knows."""
        known = (call.result for call in reversed(self._calls) if call.fingerprint == fingerprint)
        return PastCall(0, fingerprint, next(known, ""), "returned", is_change)


def steps_to_look_at(policy: Policy) -> int:
    """Steps of the history that a judgement can depend on; 0: no repetition is looked for."""
    circle = LONGEST_CYCLE * policy.repeat_unchanged
    widest = max(circle, policy.repeat_failures and policy.repeat_failures + policy.corrections)
    # Between those that ran there may be steps of which everything was refused.
    return widest and widest + LONGEST_CYCLE * policy.corrections


def fingerprint(tool: str, arguments: str) -> Fingerprint:
    """The call, whatever the order of keys, the Unicode form and the spelling of whole numbers.

    Args:
        tool: its name.
        arguments: what `compared_form` gives for the arguments.
    """
    if arguments.startswith(HASH_MARK):
        return tool, arguments
    normal = _normal(json.loads(arguments))
    return tool, json.dumps(normal, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def compared_form(args_text: str) -> str:
    """Short arguments as they are, long ones as a marked hash; the database has the same rule."""
    if len(args_text) <= COMPARED_CHARS:
        return args_text
    return HASH_MARK + hashlib.sha256(args_text.encode()).hexdigest()


def circling(history: Sequence[PastCall], allowed: int) -> frozenset[Fingerprint]:
    """The calls that have gone round in a circle `allowed` times, bringing the same each time.

    A circle is up to four different calls in any order; the last ones of the history decide.
    """
    calls = _since_change(history)
    tails = (calls[-allowed * size :] for size in range(1, LONGEST_CYCLE + 1))
    return frozenset(
        call.fingerprint
        for size, tail in enumerate(tails, start=1)
        if len(tail) == allowed * size and len(set(map(_known, tail))) <= size
        for call in tail
    )


def failed_steps(history: Sequence[PastCall]) -> list[list[PastCall]]:
    """The latest steps in which something ran and all that ran failed, in order.

    A step of which nothing ran, because a rule forbade it, tells nothing either way.
    """
    ran = [call for call in history if call.ended != "refused"]
    failed: list[list[PastCall]] = []
    for _, step in groupby(reversed(ran), key=lambda call: call.step):
        calls = list(step)
        if any(call.ended == "returned" for call in calls):
            break
        failed.insert(0, calls)
    return failed


def _since_change(history: Sequence[PastCall]) -> Sequence[PastCall]:
    """From the last change on that was no repetition itself: it may have changed any result."""
    seen: set[tuple[Fingerprint, str]] = set()
    start = 0
    for at, call in enumerate(history):
        if call.is_change and call.ended == "returned" and _known(call) not in seen:
            start = at
        seen.add(_known(call))
    return history[start:]


def _known(call: PastCall) -> tuple[Fingerprint, str]:
    return call.fingerprint, call.result


def _normal(value: _Json) -> _Json:
    if isinstance(value, str):
        return _composed(value)
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, dict):
        return {_composed(key): _normal(item) for key, item in value.items()}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _repetition_words(tool: str) -> str:
    return (
        f"This call of {tool} was not run: it only goes round in a circle, with the same results "
        "each time. Use what you have, do something else, or tell the user what is missing."
    )


def _failure_words(tool: str, steps: int) -> str:
    return (
        f"This call of {tool} was not run: every call of the last {steps} steps in which anything "
        "ran, or was asked about, has failed. Try another way, or tell the user what does not work."
    )
