"""What stands in a queue and is no message of ours never reaches Celery."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
import redis
from kombu import Connection, Queue
from kombu.compression import encoders
from kombu.exceptions import DecodeError

from tasks.drain_consumer import PromptConsumer
from tasks.message_guard import install_message_guard, is_message, message_dropped
from tests.services import Place
from umbel.redis_url import broker_url

BOMB = "0" * 2_000_000
"""Compressed it is a thousandth of it."""


@pytest.fixture
def dropped() -> Iterator[list[str]]:
    """A mark for every message that was said to be dropped."""
    marks: list[str] = []

    def hear(**_: object) -> None:
        marks.append("dropped")

    message_dropped.connect(hear, weak=False)
    yield marks
    message_dropped.disconnect(hear)


def delivered(place: Place, bodies: list[tuple[str, str | None]]) -> list[object]:
    """What a consumer gets of these bodies, each with its compression."""
    got: list[object] = []
    with Connection(broker_url(place.redis_url)) as connection:
        queue = Queue(place.redis_prefix, channel=connection.default_channel)
        queue.declare()
        producer = connection.Producer()
        for body, compression in bodies:
            producer.publish(body, routing_key=queue.name, compression=compression)
        with connection.Consumer(queue, callbacks=[lambda body, _: got.append(body)], no_ack=True):
            # The last one is plain: once it is there, everything before it was looked at.
            while bodies[-1][0] not in got:
                connection.drain_events(timeout=30)
        queue.delete()
    return got


@pytest.mark.parametrize("compression", sorted(set(encoders())))
def test_a_compressed_body_is_dropped_unopened_and_told(
    place: Place, dropped: list[str], compression: str
) -> None:
    assert install_message_guard()
    assert delivered(place, [(BOMB, compression), ("plain", None)]) == ["plain"]
    assert dropped == ["dropped"]


def test_what_is_no_json_is_told(place: Place, dropped: list[str]) -> None:
    assert install_message_guard()
    with redis.Redis.from_url(place.redis_url) as client:
        client.lpush(place.redis_prefix, "{")
    assert delivered(place, [("plain", None)]) == ["plain"]
    assert dropped == ["dropped"]


@pytest.mark.parametrize("named", ["zlib", "application/x-gzip", "no-such", 1, ["zlib"]])
def test_any_name_of_a_compression_is_refused(named: object) -> None:
    assert is_message(envelope({}))
    assert is_message(envelope({"compression": None}))
    assert not is_message(envelope({"compression": named}))


def test_a_body_that_celery_cannot_decode_is_told(dropped: list[str]) -> None:
    class Refused:
        content_type, content_encoding, body = "application/json", "utf-8", "{"
        headers: Final[dict[str, object]] = {}
        acknowledged = False

        def ack(self) -> None:
            self.acknowledged = True

    message = Refused()
    consumer = PromptConsumer.__new__(PromptConsumer)
    consumer.on_decode_error(message, DecodeError("no"))
    assert message.acknowledged
    assert dropped == ["dropped"]


def envelope(headers: dict[str, object]) -> Any:
    properties = {"delivery_tag": "x", "delivery_info": {}, "body_encoding": "base64"}
    shown = {"body": "", "content-type": "application/json", "content-encoding": "utf-8"}
    return json.loads(json.dumps({**shown, "headers": headers, "properties": properties}))
