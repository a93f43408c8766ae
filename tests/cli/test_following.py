import threading
from collections.abc import Callable

import pytest
import redis

from locks.live import LivePublisher, LiveReader
from models.database import Database
from tests.cli.stories import a_completed_run, a_run_with_an_unknown_change
from tests.models.story import claimed
from umbel.cli.following import Follower
from umbel.cli.moments import CallAsked, CallSettled, ModelText, Moment, StepDecided, StepStarted
from umbel.contracts import RunId
from umbel.errors import Unavailable

Follow = Callable[[RunId], list[Moment]]


def nothing_wrong() -> None:
    pass


@pytest.fixture
def follow(database: Database, redis_url: str, redis_prefix: str) -> Follow:
    def collect(run_id: RunId) -> list[Moment]:
        with redis.Redis.from_url(redis_url, decode_responses=True) as client:
            live = LiveReader(client, prefix=redis_prefix, run_id=run_id)
            return list(Follower(database, live, run_id, check=nothing_wrong).moments())

    return collect


def test_a_completed_run_is_told_in_the_order_it_happened(
    database: Database, follow: Follow
) -> None:
    moments = follow(a_completed_run(database))
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
    moments = follow(a_run_with_an_unknown_change(database))
    [asked] = [moment for moment in moments if isinstance(moment, CallAsked)]
    [settled] = [moment for moment in moments if isinstance(moment, CallSettled)]
    assert asked.arguments == '{"cents":900719925474099312,"to":"ann"}'
    assert (settled.state, settled.receipt, settled.result) == ("unknown", "unknown", None)


def test_live_text_comes_between_the_start_of_its_step_and_its_decision(
    database: Database, follow: Follow, redis_url: str, redis_prefix: str
) -> None:
    run_id = a_completed_run(database)
    with redis.Redis.from_url(redis_url) as client:
        for step, word in ((1, "I look."), (2, "Three files.")):
            publisher = LivePublisher(
                client, prefix=redis_prefix, run_id=run_id, step=step, attempt=1
            )
            publisher.add("text", word)
            publisher.flush()
    told = [
        (type(moment), moment.step)
        for moment in follow(run_id)
        if isinstance(moment, StepStarted | ModelText)
    ]
    for step in (1, 2):
        assert told.index((StepStarted, step)) < told.index((ModelText, step))


def test_without_redis_the_record_is_told_all_the_same(database: Database) -> None:
    run_id = a_completed_run(database)
    nowhere = redis.Redis.from_url("redis://127.0.0.1:1", socket_connect_timeout=1)
    live = LiveReader(nowhere, prefix="x", run_id=run_id)
    moments = list(Follower(database, live, run_id, check=nothing_wrong).moments())
    assert moments[-1].type == "step.decided"


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
        moments = Follower(database, live, run_id, check=check).moments()
        assert next(moments).type == "step.started"
        dead.set()
        with pytest.raises(Unavailable, match="step process ended"):
            next(moments)
