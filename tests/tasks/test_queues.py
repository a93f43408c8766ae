"""A message reaches its own queue and no other."""

import redis

from tasks.app import make_app
from tasks.ringing import Ringer
from tests.services import Place
from umbel.contracts import CallId, RunId
from umbel.names import CONTROL_QUEUE, LOOP_QUEUE, TOOLS_QUEUE
from umbel.settings import load_settings


def test_a_message_reaches_its_own_queue_and_no_other(place: Place) -> None:
    settings = load_settings(
        {},
        database_url=place.database_url,
        redis_url=place.redis_url,
        redis_prefix=place.redis_prefix,
    )
    app = make_app(settings)
    ringer = Ringer(app)
    # A worker declares every queue it knows; only then could a message be copied into all of them.
    with app.connection_for_write() as connection:
        for queue in app.amqp.queues.values():
            queue(connection.default_channel).declare()

    assert ringer.ring_step(RunId("run_1"), 1)
    assert ringer.ring_call(CallId("call_1"), "look")
    assert ringer.ring_call(CallId("call_2"), "look")

    with redis.Redis.from_url(place.redis_url) as client:
        lengths = {
            queue: client.llen(f"{{{place.redis_prefix}}}:{queue}")
            for queue in (LOOP_QUEUE, TOOLS_QUEUE, CONTROL_QUEUE)
        }
    app.close()
    assert lengths == {LOOP_QUEUE: 1, TOOLS_QUEUE: 2, CONTROL_QUEUE: 0}
