"""What Flower may show: our own short forms and names of types, and nothing else.

The second line. The first is that messages carry ids, results are one line of ours, and errors
leave a task as the name of their type; this one also covers what others put into our queues.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from celery.events.state import Task

from umbel.names import REASONS

HIDDEN: Final = "(hidden)"
"""Stands for what is none of our forms."""

_NO_ARGUMENTS: Final = ("", "{}", "()")
_ARGUMENTS: Final = re.compile(
    r"run_[0-9A-Za-z]{1,40} step [0-9]{1,9}|(?:[0-9A-Za-z_-]{1,64} )?call_[0-9A-Za-z]{1,40}"
)
_RESULT: Final = re.compile(
    "|".join(
        (
            rf"(?:answer|discard|dispatch \d+|pause (?:{'|'.join(REASONS)})|retry [a-z_]{{1,40}})"
            r", (?:\d+|unknown) tok",
            r"(?:returned|refused|errored|skipped|unknown), (?:recorded|too late)",
            r"handed back: (?:[a-z_]{1,40}|this worker is about to end)",
            r"left to others: (?:this worker is about to end|no such tool here)",
            r"left to others: it is too early for another look",
            r"put off: another change of the same resource may be on its way",
            r"carried by this worker already",
            r"held by another worker",
            r"nothing to do",
            r"already recorded",
            r"fenced out, usage booked",
            r"refused: (?:not permitted|contract_mismatch)",
            r"not started: the call or its run has moved on",
            r"ended early: its run has moved on",
        )
    )
)
_OUR_FAILURE: Final = re.compile(r"TaskFailed\('([A-Za-z_]\w{0,99})'\)")
_TYPE: Final = re.compile(r"[A-Za-z_][\w.]{0,99}(?=\(|$)")
_LOST_BY: Final = re.compile(r"WorkerLostError.*?(signal \d+ \(SIG[A-Z0-9]+\)|exitcode -?\d+)")


def format_task(task: Task) -> Task:
    """The task as Flower's pages may show it. Flower's own hook: it passes a copy."""
    for name, shown in _SHOWN.items():
        setattr(task, name, shown(getattr(task, name, None)))
    return task


def shown_event(event: Mapping[str, object]) -> dict[str, object]:
    """The event as Flower may take it in: what it keeps is what its API and its search tell."""
    return {key: _SHOWN[key](value) if key in _SHOWN else value for key, value in event.items()}


def _arguments(value: object) -> str | None:
    if value is None:
        return None
    text = str(value)
    if text in _NO_ARGUMENTS:
        return ""
    return text if _ARGUMENTS.fullmatch(text) else HIDDEN


def _result(value: object) -> str | None:
    """The line without the quotes that Celery puts around it."""
    if value is None:
        return None
    text = str(value)
    if len(text) > 1 and text[0] == text[-1] == "'":
        text = text[1:-1]
    return text if _RESULT.fullmatch(text) else HIDDEN


def _exception(value: object) -> str | None:
    """The name of the type; for a process that was lost, also by what."""
    if value is None:
        return None
    text = str(value)
    if ours := _OUR_FAILURE.fullmatch(text):
        return ours[1]
    if lost := _LOST_BY.match(text):
        return f"WorkerLostError {lost[1]}"
    found = _TYPE.match(text)
    return found[0] if found else HIDDEN


def _nothing(_value: object) -> None:
    """A traceback shows lines of code and the text of what it came from."""


_SHOWN: Final[Mapping[str, Callable[[object], str | None]]] = {
    "args": _arguments,
    "kwargs": _arguments,
    "result": _result,
    "exception": _exception,
    "traceback": _nothing,
}
