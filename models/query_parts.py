"""Parts that queries for people share: a span of time, and the end of patience."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg.errors
from sqlalchemy import ColumnElement, func
from sqlalchemy.exc import OperationalError

from umbel.errors import InvalidInput


def in_span(
    column: ColumnElement[Any],
    since: datetime | None,
    until: datetime | None,
    age_seconds: float | None,
) -> list[ColumnElement[bool]]:
    """That a time lies in the span; whatever is None does not matter.

    Args:
        column: the time.
        since: the first moment that counts.
        until: the first one that does not count any more.
        age_seconds: at most so long ago, by the database's clock.
    """
    conditions: list[ColumnElement[bool]] = []
    if since is not None:
        conditions.append(column >= since)
    if until is not None:
        conditions.append(column < until)
    if age_seconds is not None:
        age = func.make_interval(0, 0, 0, 0, 0, 0, age_seconds)
        conditions.append(column >= func.now() - age)
    return conditions


@contextmanager
def given_up_with(words: str) -> Generator[None]:
    """A query that takes longer than a statement may is refused with these words.

    Raises:
        InvalidInput: it took too long.
    """
    try:
        yield
    except OperationalError as error:
        if isinstance(error.orig, psycopg.errors.QueryCanceled):
            raise InvalidInput(words) from error
        raise
