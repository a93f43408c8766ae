"""Sums over the record: what is known is added, what is not is counted."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.dialects import postgresql

from models.database import Database
from models.usage import GROUPS, Group, UsageFilter, Used, read_usage, usage_query
from tests.factories import RunWish, a_run
from tests.models.story import change, query
from umbel.contracts import Principal, RunId

ANN = Principal(tenant="acme", user="ann")
BOB = Principal(tenant="acme", user="bob")
EVE = Principal(tenant="other", user="eve")
DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)
ATTEMPT = """
INSERT INTO model_calls (run_id, step, attempt, tenant, fence, holder, purpose, state, reply,
  input_tokens, output_tokens, cached_input_tokens, is_estimated, opened_at, closed_at)
SELECT id, %(step)s, 1, tenant, 1, 'wrk', %(purpose)s, %(state)s, '{}', %(given)s, %(out)s,
  %(cached)s, %(estimated)s, %(at)s, CASE WHEN %(state)s <> 'open' THEN now() END
FROM runs WHERE id = %(run)s
"""


def asked(database: Database, run_id: RunId, step: int, **facts: object) -> None:
    """One attempt, opened at `at`."""
    usual: dict[str, Any] = {
        "purpose": "main",
        "state": "closed",
        "given": 100,
        "out": 10,
        "cached": None,
        "estimated": False,
        "at": DAY,
    }
    database.run((ATTEMPT, usual | facts | {"run": run_id, "step": step}))


def used(
    database: Database, *groups: Group, wanted: UsageFilter | None = None
) -> dict[tuple[str, ...], Used]:
    with database.begin() as connection:
        found = read_usage(connection, wanted or UsageFilter(tenant="acme"), groups)
    lines = {(*line.groups.values(), line.model): line for line in found}
    assert len(lines) == len(found)
    return lines


def test_what_is_known_is_added_and_what_is_not_is_counted(database: Database) -> None:
    run_id = a_run(database, RunWish(principal=ANN, model="m1")).run_id
    asked(database, run_id, 1, given=100, out=10, cached=60)
    asked(database, run_id, 2, given=50, out=5, cached=70, estimated=True)
    asked(database, run_id, 3, state="lost", given=None, out=None)
    asked(database, run_id, 4, state="open", given=None, out=None)
    asked(database, run_id, 5, given=7, out=None)
    [line] = used(database).values()
    assert line == Used(
        groups={},
        model="m1",
        model_calls=5,
        unreported_calls=3,
        is_estimated=True,
        input_tokens=157,
        output_tokens=15,
        priced_input_tokens=150,
        priced_output_tokens=15,
        priced_cached_tokens=110,
    )


def test_nothing_used_is_no_line(database: Database) -> None:
    a_run(database)
    assert used(database) == {}


def test_groups_of_every_kind_are_told_apart(database: Database) -> None:
    first = a_run(database, RunWish(principal=ANN, model="m1")).run_id
    second = a_run(database, RunWish(principal=BOB, model="m2")).run_id
    asked(database, first, 1)
    asked(database, first, 2, purpose="compact", at=DAY + timedelta(days=1))
    asked(database, second, 1, given=1)
    assert {key: line.model_calls for key, line in used(database, "day").items()} == {
        ("2026-03-01", "m1"): 1,
        ("2026-03-01", "m2"): 1,
        ("2026-03-02", "m1"): 1,
    }
    assert set(used(database, "owner")) == {("ann", "m1"), ("bob", "m2")}
    assert set(used(database, "purpose", "model")) == {
        ("compact", "m1", "m1"),
        ("main", "m1", "m1"),
        ("main", "m2", "m2"),
    }
    assert set(used(database, "agent")) == {("default", "m1"), ("default", "m2")}
    assert len(used(database, *GROUPS)) == 3


def test_a_day_is_one_of_utc_whatever_the_session_thinks(database: Database) -> None:
    run_id = a_run(database, RunWish(principal=ANN)).run_id
    asked(database, run_id, 1, at=datetime(2026, 3, 1, 23, 30, tzinfo=UTC))
    with database.begin() as connection:
        connection.exec_driver_sql("SET LOCAL TimeZone = 'Asia/Tokyo'")
        [line] = read_usage(connection, UsageFilter(), ["day"])
    assert line.groups == {"day": "2026-03-01"}


@pytest.mark.parametrize(
    ("wanted", "steps"),
    [
        (UsageFilter(tenant="acme"), 4),
        (UsageFilter(tenant="other"), 1),
        (UsageFilter(), 5),
        (UsageFilter(owner="ann"), 3),
        (UsageFilter(owner="nobody"), 0),
        (UsageFilter(agent="default"), 5),
        (UsageFilter(agent="other"), 0),
        (UsageFilter(since=DAY), 4),
        (UsageFilter(since=DAY + timedelta(seconds=1)), 2),
        (UsageFilter(until=DAY), 1),
        (UsageFilter(until=DAY + timedelta(days=1)), 3),
        (UsageFilter(since=DAY, until=DAY + timedelta(days=1)), 2),
        (UsageFilter(age_seconds=3600), 1),
    ],
)
def test_only_what_is_asked_for_is_added(
    database: Database, wanted: UsageFilter, steps: int
) -> None:
    ann = a_run(database, RunWish(principal=ANN)).run_id
    bob = a_run(database, RunWish(principal=BOB)).run_id
    eve = a_run(database, RunWish(principal=EVE)).run_id
    asked(database, ann, 1, at=DAY - timedelta(seconds=1))
    asked(database, ann, 2)
    asked(database, ann, 3, at=DAY + timedelta(days=1))
    asked(database, eve, 1)
    asked(database, bob, 1)
    change(database, "UPDATE model_calls SET opened_at = now() WHERE run_id = %(id)s", id=bob)
    assert sum(line.model_calls for line in used(database, wanted=wanted).values()) == steps


CLONE = """
INSERT INTO {table} SELECT c.* FROM generate_series(1, 10000) n, {table} t,
  jsonb_populate_record(t, jsonb_build_object({column!r}, 'run_clone_' || n)) c
WHERE t.{column} = %(run)s
"""
ATTEMPTS = """
INSERT INTO model_calls (run_id, step, attempt, tenant, fence, holder, state, reply, manifest,
  input_tokens, output_tokens, opened_at, closed_at)
SELECT 'run_clone_' || (1 + (n - 1) / 10), 1 + (n - 1) %% 10, 1, 'acme', 1, 'wrk', 'closed',
  repeat('r', 600), repeat('m', 400), 1000, 100,
  now() - interval '1 day' * (100 - n / 1000.0), now()
FROM generate_series(1, 100000) n
"""


@pytest.mark.slow
def test_a_week_of_a_hundred_thousand_calls_is_read_without_the_others(database: Database) -> None:
    run_id = a_run(database, RunWish(principal=ANN)).run_id
    settled = (
        "UPDATE runs SET status = 'paused', reason = 'stall', work = 'none', settled_at = now()"
    )
    change(database, settled)
    for table, column in (("runs", "id"), ("run_specs", "run_id")):
        database.run((CLONE.format(table=table, column=column), {"run": run_id}))
    database.run((ATTEMPTS, {}))
    # What happens by itself, some time after so many rows came.
    change(database, "SELECT brin_summarize_new_values('model_calls_opened_ix')")
    for table in ("runs", "run_specs", "model_calls"):
        change(database, f"ANALYZE {table}")
    pages = query(database, "SELECT pg_relation_size('model_calls') / 8192 AS n")[0]["n"]
    week = UsageFilter(tenant="acme", age_seconds=7 * 86_400)

    [line] = used(database, wanted=week).values()
    assert line.model_calls == 7_000
    [scan] = [
        n for n in nodes(explained(database, week)) if n.get("Relation Name") == "model_calls"
    ]
    assert scan["Node Type"] == "Bitmap Heap Scan"
    assert scan["Shared Hit Blocks"] + scan["Shared Read Blocks"] < pages / 5


def explained(database: Database, wanted: UsageFilter) -> dict[str, Any]:
    """The plan of the statement as it is carried out."""
    compiled = usage_query(wanted, ["day", "owner"]).compile(
        dialect=postgresql.dialect(),  # type: ignore[no-untyped-call]  # the library leaves it open
        compile_kwargs={"literal_binds": True},
    )
    [row] = query(database, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {compiled}")
    plan: dict[str, Any] = row["QUERY PLAN"][0]["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A node of a plan and all below it."""
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)
