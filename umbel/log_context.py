"""Which run, step and call the code at hand is at work on, for every line that it logs.

A context variable: each thread has its own, and under gevent each greenlet.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final, TypedDict, Unpack


class About(TypedDict, total=False):
    """What a line can be about."""

    run_id: str
    step_no: int
    fence: int
    call_id: str
    attempt: int


_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_about: ContextVar[Mapping[str, object]] = ContextVar("umbel_log_about", default=_NOTHING)


def current() -> Mapping[str, object]:
    """What is bound here, by name."""
    return _about.get()


def bind(**about: Unpack[About]) -> None:
    """From here on lines are about this as well; what was bound under other names stays."""
    _about.set({**_about.get(), **about})


def clear() -> None:
    """From here on lines are about no run."""
    _about.set(_NOTHING)


@contextmanager
def afresh() -> Generator[None]:
    """Inside the block lines are about what is bound there alone; afterwards as before."""
    token = _about.set(_NOTHING)
    try:
        yield
    finally:
        _about.reset(token)


@contextmanager
def bound(**about: Unpack[About]) -> Generator[None]:
    """Inside the block lines are about this as well; afterwards about what they were before."""
    token = _about.set({**_about.get(), **about})
    try:
        yield
    finally:
        _about.reset(token)
