"""A Celery application that only publishes: the tests' hand on the broker."""

from celery import Celery

from tests.services import Place
from umbel.names import CALL, LOOP_QUEUE, STEP, TOOLS_QUEUE
from umbel.redis_url import broker_url


def publisher(place: Place) -> Celery:
    """An application that reaches the queues of the workers of a place."""
    app = Celery("umbel-tests", broker=broker_url(place.redis_url))
    app.conf.update(
        task_routes={STEP: {"queue": LOOP_QUEUE}, CALL: {"queue": TOOLS_QUEUE}},
        broker_transport_options={"global_keyprefix": f"{{{place.redis_prefix}}}:"},
        result_backend="disabled://",
        task_ignore_result=True,
    )
    return app
