"""Rings on a real Redis: many at once, to the right queue, and none where the list is full."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis

from locks.ownership import connect
from scheduler.bell import CallRing, StepRing
from tasks.queue_room import QueueRoom
from tasks.ringing import Ringer
from tests.broker import publisher
from tests.services import Place
from umbel.contracts import CallId, RunId
from umbel.names import LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE, list_depth

SLOTS = 10


@pytest.fixture
def ringer(place: Place) -> Iterator[Ringer]:
    app = publisher(place)
    client = connect(place.redis_url, role="test")
    yield Ringer(app, QueueRoom(client, place.redis_prefix, lambda: {LOOP_QUEUE: SLOTS}))
    client.close()
    app.close()


def lengths(place: Place) -> dict[str, int]:
    with redis.Redis.from_url(place.redis_url) as client:
        return {
            queue: int(client.llen(f"{{{place.redis_prefix}}}:{queue}"))
            for queue in (LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE)
        }


def test_many_rings_at_once_reach_their_queues(ringer: Ringer, place: Place) -> None:
    steps = [StepRing(RunId(f"run_{n}"), 1) for n in range(250)]
    suspect = StepRing(RunId("run_x"), 1, queue=SUSPECT_QUEUE)
    assert ringer.ring_all([*steps, suspect, CallRing(CallId("call_1"), "look")])
    assert lengths(place) == {LOOP_QUEUE: 250, SUSPECT_QUEUE: 1, TOOLS_QUEUE: 1}
    assert ringer.waiting() == lengths(place)


def test_a_single_ring_is_left_out_while_its_list_is_full(ringer: Ringer, place: Place) -> None:
    depth = list_depth(SLOTS)
    assert ringer.ring_all([StepRing(RunId(f"run_{n}"), 1) for n in range(depth)])
    assert ringer.ring_step(RunId("run_late"), 1), "whoever frees a slot will find it"
    assert ringer.ring_call(CallId("call_1"), "look")
    assert lengths(place) == {LOOP_QUEUE: depth, SUSPECT_QUEUE: 0, TOOLS_QUEUE: 1}


def test_a_broker_that_is_away_takes_nothing_and_has_no_lengths(place: Place) -> None:
    nowhere = replace(place, redis_url="redis://127.0.0.1:1/0")
    app = publisher(nowhere)
    client = connect(nowhere.redis_url, role="test")
    ringer = Ringer(app, QueueRoom(client, place.redis_prefix, dict))
    assert not ringer.ring_all([StepRing(RunId("run_1"), 1)])
    assert ringer.waiting() is None
    assert not ringer.ring_step(RunId("run_1"), 1)
    app.close()
