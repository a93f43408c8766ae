"""Redis is emptied again and again, or gone for a while: runs go on, and nothing else happens."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.runs.drain_scene import DrainScene, drain_scene
from tests.runs.private_broker import Broker
from tests.services import Place
from tests.worker_processes import PATIENT_CLOCKS, Pool, wait_until

pytestmark = pytest.mark.slow

_HARM: Final = """
SELECT count(*) FROM events
WHERE kind IN ('run.taken_over', 'step.handed_back', 'step.fenced_out', 'call.unknown')
"""


@pytest.fixture
def scene(place: Place, broker: Broker, tmp_path: Path) -> Iterator[DrainScene]:
    """Quick models and tools on a Redis of this test's own."""
    with drain_scene(replace(place, redis_url=broker.url), tmp_path) as made:
        made.workers.environment |= PATIENT_CLOCKS
        made.hurry()
        yield made


def _start(scene: DrainScene, pool: Pool) -> None:
    scene.workers.start("step", pool, concurrency=10 if pool == "gevent" else 3)
    scene.workers.start("tool", "prefork", concurrency=2)
    scene.workers.start("beat")
    scene.workers.wait_ready()


@pytest.mark.parametrize("pool", ["gevent", "prefork"])
def test_runs_go_on_while_redis_is_down(scene: DrainScene, broker: Broker, pool: Pool) -> None:
    _start(scene, pool)
    scene.accept("long_sleep")
    wait_until(lambda: scene.completed == 1, 30, "the system works")
    broker.kill()
    began = time.monotonic()
    for _ in range(10):
        scene.accept("long_sleep", "long_loop")
    wait_until(lambda: scene.completed == 11, 60, "runs go on without Redis")
    print(f"10 runs, 20 calls, 20 steps without Redis: {time.monotonic() - began:.1f} s")  # noqa: T201 - measured
    broker.start()
    scene.accept("long_sleep")
    wait_until(lambda: scene.completed == 12, 30, "they go on when it is back")

    assert scene.number(_HARM) == 0
    assert scene.number("SELECT max(attempt) FROM calls") == 1
    assert scene.workers.died_unasked() == []


def test_emptying_redis_again_and_again_changes_no_result(
    scene: DrainScene, broker: Broker
) -> None:
    _start(scene, "gevent")
    is_over = threading.Event()

    def wipe() -> None:
        while not is_over.wait(0.5):
            broker.wipe()

    wiping = threading.Thread(target=wipe)
    wiping.start()
    try:
        for _ in range(20):
            scene.accept("long_sleep", "change")
        wait_until(lambda: scene.completed == 20, 90, "all runs are completed")
    finally:
        is_over.set()
        wiping.join()

    assert scene.number(_HARM) == 0
    assert scene.number("SELECT max(attempt) FROM calls") == 1
    assert sorted(scene.entries("change")) == sorted(set(scene.entries("changed")))
    assert scene.workers.died_unasked() == []
