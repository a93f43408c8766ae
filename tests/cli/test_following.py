"""What `umbel run` shows of its run, event by event, while it goes on."""

import threading
from collections.abc import Callable, Iterator

import pytest
import redis

from locks.live import LivePublisher, LiveReader
from loop.decision import Answer
from models.database import Database
from models.runs import find_run
from models.steps import commit_answer
from tests.cli.stories import a_completed_run, a_run_with_an_unknown_change
from tests.factories import OWNER
from tests.models.story import REFUSED, an_exchange, claimed, dispatched
from umbel.cli.moments import CallAsked, CallSettled, ModelText, Moment, StepDecided
from umbel.cli.run_story import RunStory
from umbel.cli.runs_follow import LiveText, RunTail
from umbel.cli.runs_patience import WatchfulReader
from umbel.cli.runs_reading import Record
from umbel.contracts import RunId
from umbel.errors import Unavailable
from umbel.settings import Settings

Follow = Callable[[RunId], Iterator[Moment]]


def nothing_wrong() -> None:
    pass


def following(
    database: Database, live: LiveReader, run_id: RunId, check: Callable[[], None] = nothing_wrong
) -> Iterator[Moment]:
    record = Record(Settings(), database, OWNER.tenant, None)
    with record.reading() as connection:
        run = find_run(connection, run_id)
    assert run is not None
    reader = WatchfulReader(record, check)
    return RunTail(reader, LiveText(live), run, RunStory().tell).moments()


@pytest.fixture
def follow(database: Database, redis_url: str, redis_prefix: str) -> Iterator[Follow]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield lambda run_id: following(
            database, LiveReader(client, prefix=redis_prefix, run_id=run_id), run_id
        )


def test_a_completed_run_is_told_in_the_order_it_happened(
    database: Database, follow: Follow
) -> None:
    moments = list(follow(a_completed_run(database)))
    assert [moment.type for moment in moments] == [
        "step.started",
        "step.decided",
        "call.asked",
        "call.asked",
        "call.settled",
        "call.settled",
        "step.started",
        "step.decided",
    ]
    asked = [moment for moment in moments if isinstance(moment, CallAsked)]
    assert [moment.position for moment in asked] == [1, 2]
    assert {moment.arguments for moment in asked} == {'{"path":"."}'}
    last = moments[-1]
    assert isinstance(last, StepDecided)
    assert (last.decision, last.text, last.input_tokens) == ("answer", "Three files.", 10)


def test_an_unknown_change_keeps_its_exact_arguments_and_is_told_as_unknown(
    database: Database, follow: Follow
) -> None:
    moments = list(follow(a_run_with_an_unknown_change(database)))
    [asked] = [moment for moment in moments if isinstance(moment, CallAsked)]
    [settled] = [moment for moment in moments if isinstance(moment, CallSettled)]
    assert asked.arguments == '{"cents":900719925474099312,"to":"ann"}'
    assert (settled.state, settled.receipt, settled.result) == ("unknown", "unknown", None)


def test_live_text_comes_between_the_start_of_its_step_and_its_decision(
    database: Database, follow: Follow, redis_url: str, redis_prefix: str
) -> None:
    """Also of a step that is claimed and decided between two looks at the record."""
    claim = claimed(database)
    moments = follow(claim.run_id)
    assert next(moments).type == "step.started"
    dispatched(database, REFUSED, claim=claim)
    second = claimed(database, claim.run_id, step=2)
    with redis.Redis.from_url(redis_url) as client:
        for step, word in ((1, "I look."), (2, "Hello.")):
            publisher = LivePublisher(
                client, prefix=redis_prefix, run_id=claim.run_id, step=step, attempt=1
            )
            publisher.add("text", word)
            publisher.flush()
    commit_answer(database, second, an_exchange(), Answer("Hello."))
    told = [(m.type, m.text if isinstance(m, ModelText) else "") for m in moments]
    assert [told[0], *told[-3:]] == [
        ("model.text", "I look."),
        ("step.started", ""),
        ("model.text", "Hello."),
        ("step.decided", ""),
    ]


def test_without_redis_the_record_is_told_all_the_same(database: Database) -> None:
    run_id = a_completed_run(database)
    nowhere = redis.Redis.from_url("redis://127.0.0.1:1", socket_connect_timeout=1)
    live = LiveReader(nowhere, prefix="x", run_id=run_id)
    assert list(following(database, live, run_id))[-1].type == "step.decided"


def test_following_ends_when_the_workers_are_dead(
    database: Database, redis_url: str, redis_prefix: str
) -> None:
    run_id = claimed(database).run_id
    dead = threading.Event()

    def check() -> None:
        if dead.is_set():
            raise Unavailable("The step process ended.")

    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        live = LiveReader(client, prefix=redis_prefix, run_id=run_id)
        moments = following(database, live, run_id, check)
        assert next(moments).type == "step.started"
        dead.set()
        with pytest.raises(Unavailable, match="step process ended"):
            next(moments)
