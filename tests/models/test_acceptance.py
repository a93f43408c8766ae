from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from models.database import Database
from models.input_checks import MAX_INPUT_CHARS
from models.runs import find_run
from tests.factories import RunWish, a_run, a_tool
from tests.models.story import count, event_kinds, query, run_row
from umbel.contracts import Principal, RunId, ThreadId
from umbel.errors import IdReused, InvalidInput, NotFound

EVE = Principal(tenant="acme", user="eve")
ELSEWHERE = Principal(tenant="other", user="ann")


def test_an_accepted_run_is_ready_and_has_everything_frozen(database: Database) -> None:
    accepted = a_run(
        database, RunWish(input="Look {here}.", tools=(a_tool(),), policy={"parallel": 3})
    )
    row = run_row(database, accepted.run_id)
    assert (row["status"], row["work"], row["step"], row["next_seq"]) == ("running", "ready", 1, 2)
    [spec] = query(database, "SELECT * FROM run_specs")
    assert '"parallel":3' in spec["policy"]
    assert '"name":"look"' in spec["tools"]
    [entry] = query(database, "SELECT * FROM entries")
    assert (entry["text"], entry["author"], entry["kind"]) == ("Look {here}.", "ann", "request")
    assert event_kinds(database, accepted.run_id) == ["run.accepted"]


def test_the_same_id_again_is_the_same_run(database: Database) -> None:
    wish = RunWish(run_id=RunId("run_mine"))
    first = a_run(database, wish)
    again = a_run(database, wish)
    assert (first.is_new, again.is_new) == (True, False)
    assert again.thread_id == first.thread_id
    assert [count(database, table) for table in ("runs", "threads", "entries")] == [1, 1, 1]


def test_the_same_id_many_times_at_once_is_one_run(
    database: Database, make_database: Callable[[], Database]
) -> None:
    wish = RunWish(run_id=RunId("run_mine"))
    pools = [make_database() for _ in range(4)]
    with ThreadPoolExecutor(8) as threads:
        accepted = list(threads.map(lambda n: a_run(pools[n % 4], wish), range(16)))
    assert [run.is_new for run in accepted].count(True) == 1
    assert len({run.thread_id for run in accepted}) == 1
    assert [count(database, table) for table in ("runs", "threads", "entries")] == [1, 1, 1]


@pytest.mark.parametrize("stranger", [EVE, ELSEWHERE])
def test_an_id_of_somebody_else_is_taken(database: Database, stranger: Principal) -> None:
    a_run(database, RunWish(run_id=RunId("run_mine")))
    with pytest.raises(IdReused, match="'run_mine' is taken"):
        a_run(database, RunWish(run_id=RunId("run_mine"), principal=stranger))


@pytest.mark.parametrize("stranger", [EVE, ELSEWHERE])
def test_a_thread_of_somebody_else_does_not_exist(database: Database, stranger: Principal) -> None:
    thread_id = a_run(database).thread_id
    for makes_thread in (True, False):
        wish = RunWish(thread_id=thread_id, principal=stranger, makes_thread=makes_thread)
        with pytest.raises(NotFound, match="There is no thread"):
            a_run(database, wish)
    assert count(database, "runs") == 1


def test_a_second_run_of_a_thread_waits_for_the_first(database: Database) -> None:
    first = a_run(database)
    second = a_run(database, RunWish(thread_id=first.thread_id))
    assert second.is_queued
    row = run_row(database, second.run_id)
    assert (row["status"], row["work"], row["ring_at"]) == ("queued", "none", None)


def test_of_many_runs_accepted_at_once_in_one_thread_one_is_active(
    database: Database, make_database: Callable[[], Database]
) -> None:
    wish = RunWish(thread_id=ThreadId("thr_mine"))
    pools = [make_database() for _ in range(4)]
    with ThreadPoolExecutor(8) as threads:
        accepted = list(threads.map(lambda n: a_run(pools[n % 4], wish), range(12)))
    assert [run.is_queued for run in accepted].count(False) == 1
    rows = query(database, "SELECT status, count(*) AS n FROM runs GROUP BY status ORDER BY status")
    assert [tuple(row.values()) for row in rows] == [("queued", 11), ("running", 1)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("a\x00b", r"U\+0000"),
        ("half \ud83d pair", "surrogate"),
        ("x" * (MAX_INPUT_CHARS + 1), "the limit is"),
    ],
)
def test_a_text_that_cannot_be_kept_as_it_is_is_refused(
    database: Database, text: str, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        a_run(database, RunWish(input=text))
    assert count(database, "threads") == 0


def test_the_longest_allowed_text_is_kept(database: Database) -> None:
    text = "é" * MAX_INPUT_CHARS
    run_id = a_run(database, RunWish(input=text)).run_id
    with database.begin() as connection:
        found = find_run(connection, run_id)
    assert found is not None
    assert found.input == text


def test_a_run_is_found_by_a_beginning_that_fits_only_it(database: Database) -> None:
    a_run(database, RunWish(run_id=RunId("run_ab1")))
    a_run(database, RunWish(run_id=RunId("run_ab2")))
    a_run(database, RunWish(run_id=RunId("run_ab")))
    with database.begin() as connection:
        assert find_run(connection, "run_x") is None
        assert find_run(connection, "run_%") is None
        assert find_run(connection, "run_a") is None, "it fits several"
        for wanted, expected in (("run_ab", "run_ab"), ("run_ab1", "run_ab1")):
            found = find_run(connection, wanted)
            assert found is not None
            assert found.run_id == expected
