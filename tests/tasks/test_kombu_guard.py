"""The guard against kombu's lost-connection bug, on the channel class it wraps."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from select import select
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import redis
from kombu import Connection, Consumer, Exchange, Queue
from kombu.asynchronous import Hub
from kombu.transport.redis import Channel

from tasks import kombu_guard
from tasks.kombu_guard import KNOWN_VERSIONS, install_guard
from tests.runs.drain_scene import drain_scene
from tests.runs.private_broker import Broker, Refusal
from tests.services import Place
from tests.worker_processes import Pool, wait_until
from umbel.contracts import RunId
from umbel.names import LOOP_QUEUE
from umbel.redis_url import broker_url


@pytest.fixture
def channel_class(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The channel class as kombu made it, put back afterwards."""
    channel: Any = Channel
    original = channel._connparams
    monkeypatch.setattr(channel, "_connparams", getattr(original, "__wrapped__", original))
    return channel


def test_the_installed_kombu_is_one_the_guard_was_made_for(channel_class: Any) -> None:
    assert version("kombu").startswith(KNOWN_VERSIONS)
    assert install_guard()
    assert channel_class._connparams.is_umbel_guard


def test_kombu_still_has_the_bug(channel_class: Any) -> None:
    gone = SimpleNamespace(connection=SimpleNamespace(client=None))
    with pytest.raises(AttributeError, match="hostname"):
        channel_class._connparams(gone)


@pytest.mark.parametrize("connection", [None, SimpleNamespace(client=None)])
def test_a_connection_that_is_gone_is_a_connection_error(
    channel_class: Any, connection: object
) -> None:
    install_guard()
    with pytest.raises(redis.ConnectionError, match="gone"):
        channel_class._connparams(SimpleNamespace(connection=connection))


def test_installing_it_twice_wraps_once(channel_class: Any) -> None:
    install_guard()
    once = channel_class._connparams
    assert install_guard()
    assert channel_class._connparams is once


def test_an_unknown_kombu_is_left_alone_and_said_so(
    channel_class: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kombu_guard, "KNOWN_VERSIONS", ("4.0.",))
    before = channel_class._connparams
    assert not install_guard()
    assert channel_class._connparams is before
    assert "kombu guard is not active: untested version" in caplog.messages


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_a_worker_with_a_running_task_survives_its_broker_and_consumes_again(
    place: Place, broker: Broker, tmp_path: Path, pool: Pool
) -> None:
    """No beat, and a run that does not exist: only the message itself can be taken."""
    with drain_scene(replace(place, redis_url=broker.url), tmp_path) as scene:
        scene.workers.start("step", pool, concurrency=2)
        scene.workers.wait_ready()
        scene.accept()
        wait_until(lambda: scene.model.open_streams == 1, 20, "a task runs")
        broker.kill()
        broker.start()
        began = time.monotonic()
        assert scene.ringer.ring_step(RunId("run_nobody"), 1)
        with redis.Redis.from_url(broker.url) as client:
            name = f"{{{place.redis_prefix}}}:{LOOP_QUEUE}"
            wait_until(lambda: client.llen(name) == 0, 10, "the worker consumes again")
        print(f"{pool}: consumes {time.monotonic() - began:.1f} s after the restart")  # noqa: T201 - measured
        assert scene.model.open_streams == 1
        assert scene.workers.died_unasked() == []
        scene.hurry()
        wait_until(lambda: scene.completed == 1, 20, "the task ends well")


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_loop_goes_on_after_a_reconnect_although_a_child_has_a_copy_of_the_old_socket(
    channel_class: Any, broker: Broker, is_guarded: bool
) -> None:
    """Without the guard it reads for ever what the old socket promised: kombu still has the bug."""
    if is_guarded:
        install_guard()
    with listening_loop(broker) as (channel, tick):
        pubsub = channel.subclient.connection
        copy = os.dup(pubsub._sock.fileno())  # as every forked child of a pool has one
        with redis.Redis.from_url(broker.url) as client:
            assert client.client_kill_filter(_type="pubsub") == 1
        # A worker that stood still looks at its connections before it asks the poller.
        pubsub.next_health_check = 0
        wait_until(lambda: bool(select([pubsub._sock], [], [], 0)[0]), 5, "the loss has arrived")
        channel.connection.cycle.maybe_check_subclient_health()
        with ticking(tick, broker) as ticks:
            if is_guarded:
                wait_until(lambda: ticks() > 20, 10, "the loop goes on")
            else:
                wait_until(lambda: not has_moved(ticks), 10, "the loop stands still")
        os.close(copy)


@pytest.mark.parametrize("how", get_args(Refusal))
@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_refusal_is_a_connection_error(
    channel_class: Any, broker: Broker, how: Refusal, is_guarded: bool
) -> None:
    """Without the guard it is one that ends a worker: kombu still has the bug."""
    if is_guarded:
        install_guard()
    with Connection(broker_url(broker.url)) as connection:
        broker.refuse(how)
        for name in ("one", "two"):
            with pytest.raises(redis.RedisError) as raised:
                Queue(name, Exchange(name), name)(connection.default_channel).declare()
            assert isinstance(raised.value, connection.connection_errors) == is_guarded
        broker.accept(how)
        three = connection.SimpleQueue("three")
        three.put("x")
        assert three.get(timeout=5).payload == "x"


def test_a_user_may_lack_rights_that_only_the_greeting_would_use(
    channel_class: Any, broker: Broker
) -> None:
    install_guard()
    with redis.Redis.from_url(broker.url) as client:
        client.execute_command("ACL", "SETUSER", "default", "-client")
    with Connection(broker_url(broker.url)) as connection:
        connection.SimpleQueue("work").put("x")


@contextmanager
def listening_loop(broker: Broker) -> Iterator[tuple[Any, Callable[[], object]]]:
    """A channel that listens to a fanout, as a worker does to remote control, and its loop."""
    options = {"socket_timeout": 15, "health_check_interval": 10}
    url = broker_url(broker.url)
    with closing(Hub()) as hub, Connection(url, transport_options=options) as connection:
        channel: Any = connection.default_channel
        queue = Queue("control", Exchange("control", type="fanout"), auto_delete=True)
        Consumer(channel, [queue], no_ack=True).consume()
        connection.transport.register_with_event_loop(connection.connection, hub)
        hub.call_repeatedly(0.02, lambda: None)
        loop = hub.create_loop()
        for _ in range(10):
            next(loop)
        assert channel._in_listen
        yield channel, lambda: next(loop)


@contextmanager
def ticking(tick: Callable[[], object], broker: Broker) -> Iterator[Callable[[], int]]:
    """Let a loop run in a thread of its own until the broker is gone; how often it has run."""
    made = 0

    def run() -> None:
        nonlocal made
        with suppress(redis.RedisError, OSError):
            while True:
                tick()
                made += 1

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield lambda: made
    finally:
        broker.kill()  # whoever still reads is let go
        thread.join(10)


def has_moved(ticks: Callable[[], int]) -> bool:
    """Whether it ran within a second."""
    before = ticks()
    threading.Event().wait(1)
    return ticks() > before
