"""Adds increments of a process to the counts of all, and reads them."""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from models.database import Database
from umbel.tallies import COUNTED, Counted, Series

# Rows in one order for all: two processes that add to the same rows wait, and never for each other.
_ADD: Final = """
INSERT INTO tallies (name, labels, n)
SELECT t.name, t.labels, t.n
FROM unnest(%(names)s::text[], %(labels)s::text[], %(n)s::float8[]) AS t(name, labels, n)
ORDER BY t.name COLLATE "C", t.labels COLLATE "C"
ON CONFLICT (name, labels) DO UPDATE SET n = tallies.n + excluded.n
"""
LOAD: Final = "SELECT name, labels, n FROM tallies"


def add_tallies(database: Database, increments: Mapping[Series, float]) -> None:
    """Add every increment to its count.

    Raises:
        Unavailable: PostgreSQL does not answer. Added again after a lost answer, it counts twice.
    """
    rows = [(*_row_of(series), n) for series, n in increments.items()]
    names, labels, n = zip(*rows, strict=True) if rows else ((), (), ())
    database.run((_ADD, {"names": list(names), "labels": list(labels), "n": list(n)}))


def count_each(metric: Counted, *values: str, of: str) -> str:
    """Statement that counts the rows of `of`, for a CTE of the very statement that settles them.

    For writes of whoever may come, a command as well as a service: such a process counts nothing
    itself. It holds the count's row until its commit: not for what happens at every step.
    """
    name, labels = _row_of(Series(metric.name, values))
    return (
        f"INSERT INTO tallies (name, labels, n) SELECT '{name}', '{labels}', count(*) FROM {of} "  # noqa: S608 - constant text, no input
        "HAVING count(*) > 0 ON CONFLICT (name, labels) DO UPDATE SET n = tallies.n + excluded.n"
    )


def load_tallies(database: Database) -> dict[Series, float]:
    """All counts of metrics that this version knows."""
    [rows] = database.run((LOAD, {}))
    return tallies_of((row["name"], row["labels"], row["n"]) for row in rows)


def tallies_of(rows: Iterable[tuple[str, str, float]]) -> dict[Series, float]:
    """Rows as counts, without those that another version wrote for metrics of its own."""
    found = ((_series_of(name, labels), n) for name, labels, n in rows)
    return {series: n for series, n in found if series is not None}


def _row_of(series: Series) -> tuple[str, str]:
    labels = dict(zip(COUNTED[series.metric].labels, series.values, strict=True))
    name = series.metric
    if series.part == "sum":
        name = f"{name}_sum"
    elif series.part:
        name, labels["le"] = f"{name}_bucket", series.part
    return name, json.dumps(labels, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _series_of(name: str, labels_text: str) -> Series | None:
    labels: dict[str, str] = json.loads(labels_text)
    part = labels.pop("le", "")
    if part:
        name = name.removesuffix("_bucket")
    elif name.endswith("_sum"):
        name, part = name.removesuffix("_sum"), "sum"
    metric = COUNTED.get(name)
    if metric is None or set(metric.labels) != set(labels) or bool(metric.buckets) != bool(part):
        return None
    return Series(name, tuple(labels[label] for label in metric.labels), part)
