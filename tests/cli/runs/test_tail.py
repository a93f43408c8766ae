import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
import redis

from locks.live import LivePublisher, LiveReader
from loop.decision import Answer
from loop.outcome import Returned
from models.calls import settle
from models.database import Database
from models.owner import resume_run
from models.steps import claim_step, commit_answer
from tests.cli.stories import a_completed_run, a_run_with_an_unknown_change
from tests.factories import OWNER, RunWish, a_run
from tests.models.story import (
    ME,
    READ,
    an_exchange,
    change,
    claimed,
    dispatched,
    event_kinds,
    started,
)
from tests.services import Place
from umbel.cli import runs_follow_all
from umbel.cli.moments import Happened, ModelText, Moment, Progress
from umbel.cli.runs_follow import LiveText, RunTail
from umbel.cli.runs_follow_all import TenantTail
from umbel.cli.runs_patience import PatientReader
from umbel.cli.runs_reading import Record
from umbel.cli.runs_tail import tail_all_command, tail_command
from umbel.cli.story import telling
from umbel.contracts import Principal, RunId
from umbel.errors import InvalidInput
from umbel.settings import load_settings

pytestmark = pytest.mark.usefixtures("own_settings")
NO_LIVE = LiveText(None)


@pytest.fixture
def record(database: Database, own_settings: None) -> Record:
    return Record(load_settings(), database, OWNER.tenant, None)


def tail_of(record: Record, run_id: RunId, after: int = 0, live: LiveText | None = None) -> RunTail:
    with record.reading() as connection:
        row = record.find(connection, run_id)
    tell = telling(record.settings.model_settings(row.model))
    return RunTail(PatientReader(record), live or NO_LIVE, row, tell, after=after)


def a_long_run(database: Database, steps: int = 12) -> RunId:
    """Many events, and the run goes on."""
    run_id = a_run(database).run_id
    for step in range(1, steps + 1):
        lead_on(database, run_id, step)
    return run_id


def lead_on(database: Database, run_id: RunId, step: int) -> None:
    done = dispatched(database, READ, READ, claim=claimed(database, run_id, step=step))
    for call_id in done.calls:
        settle(database, started(database, call_id), Returned("{}"), "{}")


def seqs(moments: list[Moment]) -> list[int]:
    return [moment.seq for moment in moments if isinstance(moment, Happened)]


def test_a_tail_cut_fifty_times_at_random_sees_every_event_exactly_once(
    database: Database, record: Record
) -> None:
    """The run goes on meanwhile; only the last number that was seen is carried over."""
    run_id = a_run(database).run_id

    def carry() -> None:
        for step in range(1, 41):
            lead_on(database, run_id, step)
        change(
            database,
            "UPDATE runs SET status = 'failed', reason = 'stall', work = 'none', settled_at = now()"
            " WHERE id = %(id)s",
            id=run_id,
        )

    chance = random.Random(7)
    worker = threading.Thread(target=carry)
    worker.start()
    seen: list[int] = []
    cuts = 0
    for cut in range(51):
        tail = tail_of(record, run_id, after=seen[-1] if seen else 0)
        moments = tail.moments()
        for _ in range(chance.randint(1, 6) if cut < 50 else 10_000):
            moment = next(moments, None)
            if moment is None:
                break
            seen += seqs([moment])
        else:
            cuts += 1
        moments.close()
    worker.join()
    assert cuts == 50
    assert seen == list(range(1, len(event_kinds(database, run_id)) + 1))
    assert len(seen) > 200


def test_every_durable_line_of_json_bears_its_number_and_the_last_line_is_the_end(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_completed_run(database)
    assert tail_command(run_id, None, after=0, is_json=True, is_following=True) == 0
    *events, end = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["kind"] for event in events] == event_kinds(database, run_id)
    assert {event["type"] for event in events} == {"event"}
    assert (end["type"], end["status"], end["answer"]) == (
        "run.settled",
        "completed",
        "Three files.",
    )
    tail_command(run_id, None, after=3, is_json=True, is_following=True)
    assert json.loads(capsys.readouterr().out.splitlines()[0])["seq"] == 4


def test_a_run_that_stands_still_otherwise_ends_the_tail_with_code_one_and_what_to_do(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_run_with_an_unknown_change(database)
    assert tail_command(run_id, None, after=0, is_json=False, is_following=True) == 1
    text = capsys.readouterr().out
    assert 'pay {"cents":900719925474099312,"to":"ann"}' in text
    assert "paused     unknown_outcome" in text
    assert "to do      Look at the outside system" in text
    assert "\x1b" not in text


def test_without_following_the_tail_ends_with_what_has_happened(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_long_run(database, steps=42)
    assert tail_command(run_id, None, after=0, is_json=True, is_following=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(event_kinds(database, run_id)) > 200


def test_an_interrupted_tail_names_the_line_to_go_on_with(
    database: Database,
    record: Record,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_id = a_long_run(database, steps=1)
    last = len(event_kinds(database, run_id))

    def interrupt(*_: object) -> Iterator[Moment]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(LiveText, "pieces", interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        tail_command(run_id, None, after=last, is_json=True, is_following=True)
    assert str(caught.value) == (
        f"interrupted after event {last}; `umbel runs tail {run_id} --from {last}` goes on"
    )


def test_live_text_is_shown_between_claim_and_decision_and_not_again_afterwards(
    database: Database, record: Record, place: Place
) -> None:
    run_id = a_long_run(database, steps=1)
    claimed(database, run_id, step=2)
    with redis.Redis.from_url(place.redis_url, decode_responses=True) as client:
        for step, word in ((1, "Over."), (2, "I am writing.")):
            publisher = LivePublisher(
                client, prefix=place.redis_prefix, run_id=run_id, step=step, attempt=1
            )
            publisher.add("text", word)
            publisher.flush()
        live = LiveText(LiveReader(client, prefix=place.redis_prefix, run_id=run_id))
        moments = tail_of(record, run_id, live=live).moments()
        told: list[Moment] = []
        while not (told and isinstance(told[-1], ModelText)):
            told.append(next(moments))
        moments.close()
    assert [m.text for m in told if isinstance(m, ModelText)] == ["I am writing."]
    before = told[-2]
    assert isinstance(before, Happened)
    assert before.kind == "step.claimed"


def test_without_redis_it_is_said_once_and_the_record_is_told_all_the_same(
    database: Database, record: Record
) -> None:
    run_id = a_long_run(database, steps=1)
    nowhere = redis.Redis.from_url("redis://127.0.0.1:1", socket_connect_timeout=1)
    live = LiveText(LiveReader(nowhere, prefix="x", run_id=run_id))
    moments = tail_of(record, run_id, live=live).moments()
    events = len(event_kinds(database, run_id))
    told = [next(moments) for _ in range(events + 1)]
    lead_on(database, run_id, 2)
    told += [next(moments) for _ in range(6)]
    moments.close()
    notes = [moment.text for moment in told if isinstance(moment, Progress)]
    assert notes == ["Redis does not answer: what the model is writing is not shown"]
    assert seqs(told) == list(range(1, events + 7))


@contextmanager
def nobody_may_connect(database: Database) -> Iterator[None]:
    """The database throws everybody out and lets nobody in, as a restart does."""
    name = database.engine.url.database
    admin = Database(
        database.engine.url.set(database="postgres").render_as_string(hide_password=False),
        role="test",
        pool_size=1,
    )
    try:
        change(admin, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        change(
            admin,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %(name)s",
            name=name,
        )
        yield
    finally:
        change(admin, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        admin.close()


def test_an_outage_of_postgresql_is_said_once_and_nothing_is_lost_or_doubled(
    database: Database, record: Record, make_database: Callable[[], Database]
) -> None:
    run_id = a_long_run(database, steps=2)
    events = len(event_kinds(database, run_id))
    moments = tail_of(record, run_id).moments()
    told = [next(moments) for _ in range(events)]
    with nobody_may_connect(database):
        told.append(next(moments))
    told.append(next(moments))
    with suppress(Exception):
        database.engine.dispose()
    lead_on(database, run_id, 3)
    told += [next(moments) for _ in range(6)]
    moments.close()
    assert [moment.text for moment in told if isinstance(moment, Progress)] == [
        "PostgreSQL does not answer; this goes on when it does",
        "PostgreSQL answers again",
    ]
    assert seqs(told) == list(range(1, events + 7))


def news_of(moments: Iterator[Moment], count: int) -> list[tuple[str, int]]:
    told: list[tuple[str, int]] = []
    while len(told) < count:
        moment = next(moments)
        if isinstance(moment, Happened):
            told.append((moment.run_id, moment.seq))
    return told


def test_all_runs_are_told_from_now_on_each_event_once_whatever_became_of_them(
    database: Database, record: Record
) -> None:
    before = a_long_run(database, steps=1)
    finished = a_completed_run(database)
    paused = claimed(database).run_id
    a_run_with_an_unknown_change(database)
    started_at = {run: len(event_kinds(database, run)) for run in (before, finished, paused)}
    moments = TenantTail(record, OWNER.tenant).moments()
    assert next(moments) == Progress(topic="note", text="every run of tenant 'acme' from now on")
    lead_on(database, before, 2)
    new = a_completed_run(database)
    a_run(database, RunWish(principal=Principal(tenant="other", user="eve")))
    many = len(event_kinds(database, new))
    told = news_of(moments, 6 + many)
    lead_on(database, before, 3)
    told += news_of(moments, 6)
    moments.close()
    expected = [(before, started_at[before] + n) for n in range(1, 13)]
    expected += [(new, n) for n in range(1, many + 1)]
    assert sorted(told) == sorted(expected)
    for run in (before, new):
        numbers = [seq for run_id, seq in told if run_id == run]
        assert numbers == sorted(numbers), "in order"


def test_of_all_runs_one_that_was_paused_before_is_told_from_its_resume_on(
    database: Database, record: Record
) -> None:
    run_id = a_long_run(database, steps=1)
    change(
        database,
        "UPDATE runs SET status = 'paused', reason = 'stall', work = 'none', settled_at = now()"
        " WHERE id = %(id)s",
        id=run_id,
    )
    events = len(event_kinds(database, run_id))
    moments = TenantTail(record, OWNER.tenant).moments()
    next(moments)
    assert resume_run(database, run_id, OWNER) is not None
    assert news_of(moments, 1) == [(run_id, events + 1)]
    assert claim_step(database, run_id, 2, ME) is not None
    assert news_of(moments, 1) == [(run_id, events + 2)]
    moments.close()


def test_of_all_runs_one_that_ends_between_two_looks_is_told_to_its_end(
    database: Database, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_follow_all, "_WATCHED", 1)
    run_id, *_ = [a_run(database).run_id for _ in range(3)]
    change(database, "UPDATE runs SET accepted_at = now() - interval '1 hour'")
    moments = TenantTail(record, OWNER.tenant).moments()
    next(moments)
    claim = claimed(database, run_id)
    commit_answer(database, claim, an_exchange(), Answer("Done."))
    assert news_of(moments, 4) == [(run_id, n) for n in range(2, 6)]
    moments.close()


def test_of_all_runs_more_events_than_one_look_takes_are_told_in_order(
    database: Database, record: Record
) -> None:
    moments = TenantTail(record, OWNER.tenant).moments()
    next(moments)
    run_id = a_long_run(database, steps=40)
    many = len(event_kinds(database, run_id))
    assert many > 200
    assert news_of(moments, many) == [(run_id, n) for n in range(1, many + 1)]
    moments.close()


def test_all_runs_outlive_an_outage_of_postgresql(database: Database, record: Record) -> None:
    run_id = a_run(database).run_id
    moments = TenantTail(record, OWNER.tenant).moments()
    next(moments)
    with nobody_may_connect(database):
        assert next(moments) == Progress(
            topic="note", text="PostgreSQL does not answer; this goes on when it does"
        )
    assert next(moments) == Progress(topic="note", text="PostgreSQL answers again")
    lead_on(database, run_id, 1)
    assert news_of(moments, 6) == [(run_id, n) for n in range(2, 8)]
    moments.close()


def test_what_belongs_to_one_run_is_refused_for_all() -> None:
    with pytest.raises(InvalidInput, match="belong to one run"):
        tail_all_command(None, after=3, is_json=False, is_following=True)
    with pytest.raises(InvalidInput, match="belong to one run"):
        tail_all_command(None, after=0, is_json=False, is_following=False)
