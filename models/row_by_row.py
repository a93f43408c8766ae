"""Dealing with rows of many owners: one that cannot be dealt with stops none of the others."""

import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from models.database import Row
from umbel.errors import Contended, Unavailable

log: Final = logging.getLogger(__name__)

Result = TypeVar("Result")


def row_by_row(
    rows: Iterable[Row], deal: Callable[[Row], Result | None]
) -> list[tuple[Row, Result]]:
    """What `deal` made of each row; those that gave None, are locked or raise are left out.

    A row that raises is logged; whoever looks next finds it again.

    Args:
        rows: each with the id of its run as `run_id`.
        deal: one transaction.

    Raises:
        Unavailable: PostgreSQL does not answer.
    """
    done: list[tuple[Row, Result]] = []
    for row in rows:
        try:
            result = deal(row)
        except Contended:
            continue
        except Unavailable:
            raise
        except Exception:
            log.exception("row left to the next sweep", extra={"run_id": row["run_id"]})
            continue
        if result is not None:
            done.append((row, result))
    return done
