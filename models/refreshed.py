"""What requests show of results that were read again."""

from typing import Any

from loop.gaps import unread
from models.database import Row

Shown = dict[str, dict[str, Any]]
"""By the call that the model made: what stands in place of its own view and pictures."""


def refreshed(rows: list[Row]) -> Shown:
    """The rows of `hot_refresh.SHOWN`; a gap where reading it again was tried and failed."""
    return {
        row["root"]: {
            "view": row["view"]
            if row["state"] == "returned"
            else unread(row["sources"], row["view"]),
            "picture_types": row["picture_types"],
            "pictures": row["pictures"],
        }
        for row in rows
    }


def with_refreshed(results: list[Row], shown: Shown) -> list[Row]:
    """Rows of results, each as its call was read last."""
    return [row | shown.get(row["id"], {}) for row in results]
