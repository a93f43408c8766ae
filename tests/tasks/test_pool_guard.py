"""The guard against Celery's fall over a child that has just ended, on the class it wraps."""

import os
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest
from celery.concurrency.asynpool import AsynPool
from kombu.asynchronous import Hub

from tasks import pool_guard
from tasks.pool_guard import KNOWN_VERSIONS, install_pool_guard

POOL = SimpleNamespace(_event_process_exit=lambda *_: None)


@pytest.fixture
def pool_class(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The pool class as Celery made it, put back afterwards."""
    pool: Any = AsynPool
    original = pool._track_child_process
    monkeypatch.setattr(pool, "_track_child_process", getattr(original, "__wrapped__", original))
    return pool


@pytest.fixture
def hub() -> Iterator[Hub]:
    """An event loop that is not run."""
    with closing(Hub()) as made:
        yield made


def test_celery_still_has_the_bug(pool_class: Any, hub: Hub) -> None:
    ended = SimpleNamespace(_sentinel_poll=None)
    with pytest.raises(ValueError, match="file descriptor is None"):
        pool_class._track_child_process(POOL, ended, hub)


def test_a_child_that_has_ended_is_not_registered_and_a_living_one_is(
    pool_class: Any, hub: Hub
) -> None:
    assert version("celery").startswith(KNOWN_VERSIONS)
    assert install_pool_guard()
    assert install_pool_guard(), "a second time it wraps nothing"
    reader, writer = os.pipe()
    living = SimpleNamespace(_popen=SimpleNamespace(sentinel=reader))

    pool_class._track_child_process(POOL, SimpleNamespace(_sentinel_poll=None), hub)
    pool_class._track_child_process(POOL, living, hub)

    assert list(hub.readers) == [living._sentinel_poll]
    for descriptor in (reader, writer, living._sentinel_poll):
        os.close(descriptor)


def test_an_unknown_celery_is_left_alone_and_said_so(
    pool_class: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pool_guard, "KNOWN_VERSIONS", ("4.0.",))
    before = pool_class._track_child_process
    assert not install_pool_guard()
    assert pool_class._track_child_process is before
    assert "pool guard is not active: untested version" in caplog.messages
