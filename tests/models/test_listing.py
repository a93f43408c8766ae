from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import text

from models.database import Database
from models.listing import RunFilter, last_events, list_runs, new_runs, unsettled_runs
from tests.cli.stories import a_completed_run, a_run_with_an_unknown_change
from tests.factories import RunWish, a_run
from tests.models.story import change, event_kinds, query
from umbel.contracts import Principal, RunId, ThreadId
from umbel.errors import NotFound

ELSEWHERE = Principal(tenant="other", user="eve")
BOB = Principal(tenant="acme", user="bob")


def found(
    database: Database, wanted: RunFilter, *, limit: int = 20, after: str | None = None
) -> list[str]:
    with database.begin() as connection:
        page = list_runs(connection, wanted, limit=limit, after=after)
    return [row.run_id for row in page.rows]


def test_runs_are_listed_newest_first_and_by_tenant(database: Database) -> None:
    mine = [a_run(database).run_id for _ in range(3)]
    theirs = a_run(database, RunWish(principal=ELSEWHERE)).run_id
    assert found(database, RunFilter(tenant="acme")) == mine[::-1]
    assert found(database, RunFilter()) == [theirs, *mine[::-1]]


def test_a_run_with_an_id_of_its_callers_own_stands_where_its_time_puts_it(
    database: Database,
) -> None:
    ids = [
        a_run(database, RunWish(run_id=RunId(name) if name else None)).run_id
        for name in ("run_zzz", None, "run_AAA", None)
    ]
    assert found(database, RunFilter(tenant="acme")) == ids[::-1]


def test_pages_give_every_run_once_though_new_ones_come(database: Database) -> None:
    own = {2: RunId("run_zzz"), 5: RunId("run_AAA")}
    ids = [a_run(database, RunWish(run_id=own.get(n))).run_id for n in range(7)]
    seen: list[str] = []
    after = None
    while True:
        with database.begin() as connection:
            page = list_runs(connection, RunFilter(tenant="acme"), limit=3, after=after)
        seen += [row.run_id for row in page.rows]
        if not page.has_more:
            break
        after = page.rows[-1].run_id
        a_run(database)
    assert seen == ids[::-1]


def test_runs_accepted_at_the_same_moment_are_paged_without_gap_or_double(
    database: Database,
) -> None:
    ids = sorted(a_run(database).run_id for _ in range(4))
    change(database, "UPDATE runs SET accepted_at = '2026-01-01T00:00Z'")
    first = found(database, RunFilter(), limit=2)
    assert first + found(database, RunFilter(), limit=2, after=first[-1]) == ids[::-1]


def test_to_go_on_after_a_run_that_is_not_there_is_refused(database: Database) -> None:
    with pytest.raises(NotFound, match="give the whole id"):
        found(database, RunFilter(), after="run_gone")


def test_every_filter_alone_and_together_finds_exactly_what_it_names(database: Database) -> None:
    completed = a_completed_run(database)
    paused = a_run_with_an_unknown_change(database)
    bobs = a_run(database, RunWish(principal=BOB, thread_id=ThreadId("thr_bob"))).run_id
    cases = {
        RunFilter(statuses=("completed",)): [completed],
        RunFilter(statuses=("completed", "paused")): [paused, completed],
        RunFilter(reasons=("unknown_outcome",)): [paused],
        RunFilter(owner="bob"): [bobs],
        RunFilter(thread_id="thr_bob"): [bobs],
        RunFilter(agent="default"): [bobs, paused, completed],
        RunFilter(agent="nobody"): [],
        RunFilter(owner="bob", statuses=("paused",)): [],
        RunFilter(owner="ann", statuses=("paused",), reasons=("unknown_outcome",)): [paused],
    }
    for wanted, expected in cases.items():
        assert found(database, wanted) == expected, wanted


def test_age_is_judged_by_the_databases_clock(database: Database) -> None:
    old, young = a_run(database).run_id, a_run(database).run_id
    change(
        database,
        "UPDATE runs SET accepted_at = now() - interval '2 hours' WHERE id = %(id)s",
        id=old,
    )
    assert found(database, RunFilter(age_seconds=3_600)) == [young]
    assert found(database, RunFilter(age_seconds=7_201)) == [young, old]


def test_since_is_included_and_until_is_not(database: Database) -> None:
    run_id = a_run(database).run_id
    [row] = query(database, "SELECT accepted_at FROM runs")
    at = row["accepted_at"]
    tick = timedelta(microseconds=1)
    assert found(database, RunFilter(since=at)) == [run_id]
    assert found(database, RunFilter(since=at + tick)) == []
    assert found(database, RunFilter(until=at)) == []
    assert found(database, RunFilter(until=at + tick)) == [run_id]


def test_words_are_looked_for_in_request_and_answer_and_mean_themselves(
    database: Database,
) -> None:
    percent = a_run(database, RunWish(input="Raise it by 100%_now, O'Brien \\ Sons/")).run_id
    plain = a_run(database, RunWish(input="Raise it by 1000 now")).run_id
    answered = a_completed_run(database, "Count")
    assert found(database, RunFilter(words=("RAISE",))) == [plain, percent]
    assert found(database, RunFilter(words=("100%",))) == [percent]
    assert found(database, RunFilter(words=("%_",))) == [percent]
    assert found(database, RunFilter(words=("o'brien", "\\", "sons/"))) == [percent]
    assert found(database, RunFilter(words=("three", "FILES"))) == [answered]
    assert found(database, RunFilter(words=("count", "zebra"))) == []
    assert found(database, RunFilter(words=("'; DROP TABLE runs --",))) == []


def test_what_moved_is_known_by_the_number_of_each_runs_last_event(database: Database) -> None:
    waiting = a_run(database).run_id
    completed = a_completed_run(database)
    a_run(database, RunWish(principal=ELSEWHERE))
    many = len(event_kinds(database, completed))
    with database.begin() as connection:
        assert unsettled_runs(connection, "acme") == {waiting: 1}
        assert new_runs(connection, "acme", seconds=60) == {waiting: 1, completed: many}
        assert new_runs(connection, "acme", seconds=0) == {}
        assert last_events(connection, [completed, "run_gone"]) == {completed: many}


MANY = """
WITH t AS (
  INSERT INTO threads (id, tenant, owner) SELECT 'thr_' || n, CASE WHEN n <= 30 THEN 'small'
    ELSE 'big' END, 'ann' FROM generate_series(1, 1500) n RETURNING id, tenant),
r AS (
  INSERT INTO runs (id, tenant, thread_id, owner, status, work, answer, accepted_at, settled_at,
    next_seq)
  SELECT 'run_' || substr(t.id, 5), t.tenant, t.id, 'ann', 'completed', 'none', 'yes',
    now() - make_interval(secs => 100000 - substr(t.id, 5)::int), now(), 2 FROM t
  RETURNING id, tenant, thread_id),
s AS (
  INSERT INTO run_specs (run_id, tenant, principal, agent, profile, model, instructions, policy,
    policy_sha, tools, tools_sha)
  SELECT r.id, r.tenant, 'ann', 'default', 'steward', 'm', 'x', '{}', sha256('{}'), '[]',
    sha256('[]') FROM r)
INSERT INTO entries (id, tenant, thread_id, run_id, kind, author, text)
SELECT 'ent_' || r.id, r.tenant, r.thread_id, r.id, 'request', 'ann', 'Hello.' FROM r
"""


def test_a_page_is_read_through_an_index_however_many_runs_others_have(
    database: Database, make_database: Callable[[], Database]
) -> None:
    change(database, MANY)
    for table in ("runs", "entries", "run_specs", "threads"):
        change(database, f"ANALYZE {table}")
    for tenant in ("big", "small"):
        # A session of its own: counts of earlier transactions stay in the view for up to a second.
        with make_database().begin() as connection:
            connection.execute(text("SET LOCAL random_page_cost = 1.1"))  # as on an SSD
            page = list_runs(connection, RunFilter(tenant=tenant), limit=20)
            read = connection.execute(
                text(
                    "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
                    " WHERE relname = 'runs'"
                )
            ).scalar_one()
        assert len(page.rows) == 20
        assert read < 100, tenant
