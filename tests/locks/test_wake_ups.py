import time

import pytest
import redis

from locks.ownership import connect
from locks.wake_ups import WakeUpListener, WakeUps
from umbel.contracts import RunId

FIRST, SECOND = RunId("run_1"), RunId("run_2")


def test_what_is_sent_between_two_looks_is_heard_once(client: redis.Redis, prefix: str) -> None:
    listener = WakeUpListener(client, prefix=prefix)
    assert listener.hear(0.001) == set()
    sender = WakeUps(client, prefix=prefix)
    sender.send([FIRST, SECOND])
    sender.send([FIRST])
    assert listener.hear(0.01) == {FIRST, SECOND}
    assert listener.hear(0.001) == set()


def test_every_process_hears_it_and_a_later_one_does_not(client: redis.Redis, prefix: str) -> None:
    listeners = [WakeUpListener(client, prefix=prefix) for _ in range(2)]
    for listener in listeners:
        listener.hear(0.001)
    WakeUps(client, prefix=prefix).send([FIRST])
    assert [listener.hear(0.01) for listener in listeners] == [{FIRST}, {FIRST}]
    assert WakeUpListener(client, prefix=f"{prefix}-other").hear(0.001) == set()


def test_an_emptied_redis_loses_no_later_wake_up(client: redis.Redis, prefix: str) -> None:
    listener, sender = WakeUpListener(client, prefix=prefix), WakeUps(client, prefix=prefix)
    listener.hear(0.001)
    sender.send([FIRST])
    listener.hear(0.01)
    client.delete(f"{prefix}:wake")
    let_a_millisecond_pass(client)  # ids are of the server's clock, and count within a millisecond
    sender.send([SECOND])
    assert listener.hear(0.01) == {SECOND}


def let_a_millisecond_pass(client: redis.Redis) -> None:
    """Until the server's clock shows another one."""
    began = milliseconds(client)
    while milliseconds(client) == began:
        pass


def milliseconds(client: redis.Redis) -> int:
    """What the server's clock shows, since 1970."""
    seconds, micros = client.time()
    return int(seconds) * 1_000 + int(micros) // 1_000


def test_a_dead_server_holds_no_sender_up_twice() -> None:
    with connect("redis://127.0.0.1:1/0", role="test") as client:
        sender = WakeUps(client, prefix="u")
        sender.send([FIRST])
        began = time.monotonic()
        sender.send([FIRST])
        assert time.monotonic() - began < 0.5
        with pytest.raises(redis.RedisError):
            WakeUpListener(client, prefix="u").hear(0.001)
