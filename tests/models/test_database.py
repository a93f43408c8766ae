import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import make_url, text

from loop.outcome import Returned
from models.calls import settle
from models.database import Database, Statement
from tests.factories import a_run
from tests.models.story import READ, change, dispatched, query, run_row, started
from tests.models.two_sessions import connect, holding
from tests.worker_processes import wait_until
from umbel.errors import InvariantBroken, Unavailable

NOWHERE = "postgresql+psycopg://nobody@127.0.0.1:1/none"


def test_statements_of_one_transaction_stand_or_fall_together(database: Database) -> None:
    run = a_run(database)
    with pytest.raises(InvariantBroken, match="runs_counters"):
        database.run(
            ("UPDATE runs SET step = 7", {}),
            ("UPDATE runs SET open_calls = -1", {}),
        )
    assert run_row(database, run.run_id)["step"] == 1


def test_a_statement_sees_what_was_committed_before_it_got_its_lock(
    database: Database, url: str
) -> None:
    run = a_run(database)
    with holding(url) as first, ThreadPoolExecutor(1) as pool:
        first.run(("UPDATE runs SET step = 7", {}))
        waiting = pool.submit(
            database.run,
            ("SELECT id FROM runs FOR UPDATE", {}),
            ("SELECT step FROM runs", {}),
        )
        wait_until(first.blocks, 5, "the second waits")
        first.commit()
        assert waiting.result(5)[1] == [{"step": 7}]
    assert run_row(database, run.run_id)["step"] == 7


def test_after_an_error_the_same_pool_goes_on(database: Database) -> None:
    for _ in range(20):
        with pytest.raises(psycopg.errors.DivisionByZero):
            query(database, "SELECT 1 / 0")
    assert query(database, "SELECT 1 AS one") == [{"one": 1}]


def test_a_server_that_is_away_is_unavailable() -> None:
    database = Database(NOWHERE, role="test", pool_size=1)
    with pytest.raises(Unavailable, match="does not answer"):
        query(database, "SELECT 1")
    with pytest.raises(Unavailable, match="does not answer"), database.begin():
        pass


def test_connections_that_the_server_ended_are_replaced(database: Database, url: str) -> None:
    query(database, "SELECT 1")
    with connect(url, autocommit=True) as killer:
        killer.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'umbel-test'"
        )
    failures = 0
    for _ in range(10):
        try:
            query(database, "SELECT 1")
        except Unavailable:
            failures += 1
    assert failures <= 1, "the first failure empties the pool"


# Whoever looks for a deadlock is its victim; each session looks once, after so long in a wait.
LOOK_AFTER = """
SELECT set_config('deadlock_timeout', %(time)s, true) FROM pg_roles
WHERE rolname = current_user AND rolsuper
"""


def test_a_deadlock_is_tried_again(database: Database, url: str) -> None:
    one, two = a_run(database).run_id, a_run(database).run_id
    update = "UPDATE runs SET calls_used = calls_used + 1 WHERE id = %(id)s"
    with holding(url) as other, ThreadPoolExecutor(1) as pool:
        other.run((LOOK_AFTER, {"time": "1min"}), (update, {"id": two}))
        look_late = (LOOK_AFTER, {"time": "3s"})
        mine = pool.submit(database.run, look_late, (update, {"id": one}), (update, {"id": two}))
        wait_until(other.blocks, 5, "the first half of the circle")
        other.run((update, {"id": one}))
        other.commit()
        mine.result(10)
    assert [run_row(database, run)["calls_used"] for run in (one, two)] == [2, 2]


def test_a_value_too_large_for_postgresql_is_a_fault_not_an_outage(database: Database) -> None:
    """Else it would be written again for ever: only an outage is worth repeating."""
    a_run(database)
    too_long = os.urandom(20_000).hex()
    with pytest.raises(InvariantBroken, match="PostgreSQL refused a write: index row"):
        change(database, "UPDATE runs SET id = %(id)s", id=too_long)


def test_a_statement_that_took_too_long_does_not_cost_the_pool_its_connections(
    database: Database,
) -> None:
    [before] = query(database, "SELECT pg_backend_pid() AS pid")
    with pytest.raises(Unavailable, match="statement timeout"):
        database.run(("SET LOCAL statement_timeout = '50ms'", {}), ("SELECT pg_sleep(9)", {}))
    assert query(database, "SELECT pg_backend_pid() AS pid") == [before]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("size_chars", [300_000, 5_000_000, 32 * 1024 * 1024])
def test_a_large_result_is_stored_like_a_small_one(database: Database, size_chars: int) -> None:
    """Larger than a socket's buffer: client and server must not wait for each other."""
    step = dispatched(database, READ)
    body = f'"{os.urandom(size_chars // 2 - 1).hex()}"'
    assert settle(database, started(database, step.calls[0]), Returned(body), "cut") is not None
    [row] = query(database, "SELECT total_chars, body = %(body)s AS same FROM evidence", body=body)
    assert (row["total_chars"], row["same"]) == (size_chars, True)


@pytest.mark.parametrize("place", range(3))
def test_the_failure_itself_is_reported_wherever_it_stands(database: Database, place: int) -> None:
    statements: list[Statement] = [("SELECT 1", {})] * 3
    statements[place] = ("SELECT 1 / 0", {})
    for _ in range(20):
        with pytest.raises(psycopg.errors.DivisionByZero):
            database.run(*statements)
    large = {"text": "x" * 2_000_000}
    statements = [("SELECT length(%(text)s)", large)] * 3
    statements[place] = ("SELECT 1 / (length(%(text)s) - 2000000)", large)
    with pytest.raises(psycopg.errors.DivisionByZero):
        database.run(*statements)


def test_a_pool_is_not_carried_across_a_fork(database: Database) -> None:
    query(database, "SELECT 1")
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def child() -> None:
        try:
            query(database, "SELECT 1")
        except InvariantBroken as error:
            queue.put(str(error))
        os._exit(0)

    process = context.Process(target=child)
    process.start()
    assert "across a fork" in queue.get()
    process.join(10)


def test_every_connection_gives_up_by_itself(database: Database) -> None:
    rows = query(
        database,
        "SELECT current_setting('statement_timeout') AS statement,"
        " current_setting('idle_in_transaction_session_timeout') AS idle,"
        " current_setting('application_name') AS name",
    )
    assert rows == [{"statement": "5s", "idle": "10s", "name": "umbel-test"}]


def test_a_database_that_is_read_only_for_a_while_is_an_outage(
    url: str, make_database: Callable[[], Database]
) -> None:
    name = make_url(url).database
    plain = url.replace("+psycopg", "")
    pool = make_database()
    pool.run(("UPDATE runs SET fence = fence", {}))
    with psycopg.connect(plain, autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        try:
            with pytest.raises(Unavailable):
                make_database().run(("UPDATE runs SET fence = fence", {}))
        finally:
            admin.execute("SET default_transaction_read_only = off")
            admin.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    pool.run(("UPDATE runs SET fence = fence", {}))


def test_a_process_that_was_frozen_in_a_transaction_meets_an_outage(database: Database) -> None:
    def goes_on_too_late() -> None:
        with database.begin() as connection:
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = '20ms'"))
            pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            here = "SELECT 1 FROM pg_stat_activity WHERE pid = %(pid)s"
            wait_until(lambda: not query(database, here, pid=pid), 20, "it is cut off")
            connection.execute(text("SELECT 1"))

    with pytest.raises(Unavailable):
        goes_on_too_late()
    with pytest.raises(Unavailable):
        database.run(("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '25P03'; END $$", {}))

    assert query(database, "SELECT 1 AS one") == [{"one": 1}]
