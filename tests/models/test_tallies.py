"""The counts of all processes, and the look at the whole system that is cheap with a long past."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from models import overview
from models.database import Database
from models.overview import Backlog, look
from models.tallies import add_tallies, load_tallies
from tests.factories import a_run
from tests.models.story import (
    CHANGE,
    READ,
    beat,
    change,
    claimed,
    dispatched,
    fall_silent,
    query,
    started,
)
from umbel.errors import InvariantBroken
from umbel.names import LOOP_QUEUE, TOOLS_QUEUE
from umbel.tallies import Series

STEPS = Series("umbel_redelivered_total", ("umbel.loop.step",))
CALLS = Series("umbel_redelivered_total", ("umbel.tools.call",))
WAIT = Series("umbel_queue_wait_seconds", ("umbel.loop",), "0.5")
WAITED = Series("umbel_queue_wait_seconds", ("umbel.loop",), "sum")


def test_increments_are_added_to_what_others_counted(
    database: Database, make_database: Callable[[], Database]
) -> None:
    add_tallies(database, {STEPS: 2.0, WAIT: 1.0, WAITED: 0.3})
    add_tallies(make_database(), {STEPS: 3.0, CALLS: 1.0})
    assert load_tallies(database) == {STEPS: 5.0, CALLS: 1.0, WAIT: 1.0, WAITED: 0.3}


def test_labels_of_any_text_come_back_as_they_were(database: Database) -> None:
    odd = Series("umbel_cost_usd_total", ('a"b\\c\n{le="x"} ü',))
    add_tallies(database, {odd: 0.5})
    assert load_tallies(database) == {odd: 0.5}


def test_nothing_counted_writes_nothing(database: Database) -> None:
    add_tallies(database, {})
    assert load_tallies(database) == {}


def test_a_count_never_gets_smaller(database: Database) -> None:
    with pytest.raises(InvariantBroken, match="tallies_grows"):
        add_tallies(database, {STEPS: -1.0})


def test_counts_of_another_version_are_passed_over(database: Database) -> None:
    add_tallies(database, {STEPS: 1.0})
    change(database, "INSERT INTO tallies VALUES ('umbel_future_total', '{}', 1)")
    change(database, "INSERT INTO tallies VALUES ('umbel_redelivered_total', '{\"x\":\"\"}', 1)")
    assert load_tallies(database) == {STEPS: 1.0}


def test_processes_that_add_the_same_rows_in_any_order_wait_and_lose_nothing(
    database_url: str,  # a database of its own: the shared one counts the deadlocks of other tests
) -> None:
    rows = [Series("umbel_cost_usd_total", (f"m{n}",)) for n in range(50)]
    orders = [rows, rows[::-1], rows[25:] + rows[:25], rows[::2] + rows[1::2]]

    def add(order: list[Series]) -> None:
        pool = Database(database_url, role="test", pool_size=1)
        for _ in range(25):
            add_tallies(pool, dict.fromkeys(order, 1.0))
        pool.close()  # and with it the session tells of its deadlocks

    with ThreadPoolExecutor(len(orders)) as threads:
        list(threads.map(add, orders))
    database = Database(database_url, role="test", pool_size=1)
    assert load_tallies(database) == dict.fromkeys(rows, 100.0)
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert query(database, deadlocks) == [{"deadlocks": 0}]
    database.close()


def test_the_look_tells_what_is_not_over(database: Database) -> None:
    a_run(database)
    claimed(database)
    dispatched(database, READ)
    lost = dispatched(database, CHANGE)
    started(database, lost.calls[0])
    change(database, "UPDATE receipts SET outcome = 'unknown', closed_at = now()")
    paused = a_run(database)
    change(
        database,
        "UPDATE runs SET status = 'paused', reason = 'stall', work = 'none', settled_at = now()"
        " WHERE id = %(run_id)s",
        run_id=paused.run_id,
    )
    beat(database)
    found = look(database, dead_after_seconds=15)
    assert found.runs == {("running", ""): 4, ("paused", "stall"): 1}
    assert {queue: backlog.depth for queue, backlog in found.ready.items()} == {
        LOOP_QUEUE: 1,
        TOOLS_QUEUE: 1,
    }
    assert found.unknown_receipts == 1
    assert sum(found.workers.values()) == 1
    fall_silent(database)
    assert look(database, dead_after_seconds=1).workers == {}


def test_the_age_of_what_is_ready_counts_from_when_it_became_so(database: Database) -> None:
    empty = look(database, dead_after_seconds=15).ready
    assert empty == {LOOP_QUEUE: Backlog(0, 0.0), TOOLS_QUEUE: Backlog(0, 0.0)}
    a_run(database)
    dispatched(database, READ)
    change(database, "UPDATE events SET at = at - interval '100 seconds'")
    change(database, "UPDATE calls SET ring_at = ring_at - interval '40 seconds'")
    change(database, "UPDATE model_calls SET closed_at = closed_at - interval '70 seconds'")
    ready = look(database, dead_after_seconds=15).ready
    assert 100 <= ready[LOOP_QUEUE].oldest_seconds < 130
    assert 40 <= ready[TOOLS_QUEUE].oldest_seconds < 65
    # Announced again: only the decision is left to count from.
    change(database, "UPDATE calls SET ring_at = now(), rings = 3")
    ready = look(database, dead_after_seconds=15).ready
    assert 70 <= ready[TOOLS_QUEUE].oldest_seconds < 100


def test_a_run_that_waits_for_its_time_is_not_ready(database: Database) -> None:
    a_run(database)
    change(database, "UPDATE runs SET not_before = now() + interval '1 hour'")
    assert look(database, dead_after_seconds=15).ready[LOOP_QUEUE] == Backlog(0, 0.0)


def test_the_look_writes_nothing(database: Database) -> None:
    assert overview._READ_ONLY == "SET TRANSACTION READ ONLY"
    with pytest.raises(Exception, match="read-only"):
        database.run((overview._READ_ONLY, {}), ("DELETE FROM tallies", {}))


FILL = """
INSERT INTO runs (id, tenant, thread_id, owner, status, work, answer, reason, settled_at)
SELECT 'run_' || n, 't', %(thread_id)s, 'o',
  CASE WHEN n %% 10 = 0 THEN 'failed' ELSE 'completed' END, 'none', 'x',
  CASE WHEN n %% 10 = 0 THEN 'iteration_limit' END, now()
FROM generate_series(1, 100000) n
"""
FILL_EVENTS = """
INSERT INTO events (run_id, seq, kind, fence)
SELECT 'run_' || n, s, 'step.claimed', 1 FROM generate_series(1, 100000) n, generate_series(1, 2) s
"""
FILL_CALLS = """
INSERT INTO calls (id, run_id, tenant, step, position, model_id, tool, tool_version, effect,
  placement, state, args_text, args_sha, steer_rev, source_rev, auth_rev, stall_seconds, settled_at)
SELECT 'call_' || n, 'run_' || n, 't', 1, 1, 'c', 'look', '1', 'read', 'task', 'returned', '{}',
  sha256('{}'), 0, 0, 0, 30, now()
FROM generate_series(1, 100000) n
"""
FILL_RECEIPTS = """
INSERT INTO receipts (call_id, run_id, tenant, attempt, args_text, args_sha, intent_seq, outcome,
  closed_at)
SELECT 'call_' || n, 'run_' || n, 't', 1, '{}', sha256('{}'), 1, 'done', now()
FROM generate_series(1, 100000) n
"""
FILL_MODEL_CALLS = """
INSERT INTO model_calls (run_id, step, attempt, tenant, fence, holder, state, decision, reply,
  closed_at)
SELECT 'run_' || n, 1, 1, 't', 1, 'wrk_x', 'closed', 'dispatch', '{}', now()
FROM generate_series(1, 100000) n
"""
PAST = (FILL, FILL_EVENTS, FILL_CALLS, FILL_RECEIPTS, FILL_MODEL_CALLS)
LOOKS = (
    *(overview.RUNS, overview.READY_RUNS, overview.READY_CALLS),
    *(overview.UNKNOWN_RECEIPTS, overview.WORKERS),
)


@pytest.mark.slow
def test_a_long_past_costs_the_look_nothing(database_url: str) -> None:
    """100,000 settled runs with their events, calls and receipts, none of which is read."""
    database = Database(database_url, role="test", pool_size=2)
    thread_id = a_run(database).thread_id
    dispatched(database, READ)
    database.run(
        ("SET LOCAL statement_timeout = '60s'", {}),
        *((sql, {"thread_id": thread_id}) for sql in PAST),
    )
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for table in ("runs", "events", "calls", "receipts", "model_calls"):
            connection.exec_driver_sql(f"VACUUM (ANALYZE) {table}")
    for sql in LOOKS:
        rows = query(database, f"EXPLAIN (ANALYZE, BUFFERS) {sql % {'dead_after': 15}}")
        plan = "\n".join(row["QUERY PLAN"] for row in rows)
        for table in ("runs", "events", "calls", "receipts", "model_calls"):
            assert f"Seq Scan on {table}" not in plan, plan
    look(database, dead_after_seconds=15)
    began = time.perf_counter()
    for _ in range(20):
        look(database, dead_after_seconds=15)
    milliseconds = (time.perf_counter() - began) / 20 * 1000
    print(f"one look: {milliseconds:.2f} ms")  # noqa: T201 - shown with -s
    database.close()
    assert milliseconds < 50, "the look reads what is over"
