"""Redis answers and takes no message: full, read-only or without the right. Runs go on."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.runs.drain_scene import DrainScene, drain_scene
from tests.runs.private_broker import Broker, Refusal
from tests.services import Place
from tests.worker_processes import Pool, wait_until

pytestmark = pytest.mark.slow

_HARM: Final = """
SELECT count(*) FROM events
WHERE kind IN ('run.taken_over', 'step.handed_back', 'step.fenced_out', 'call.unknown')
"""
REFUSALS: Final = pytest.mark.parametrize("how", ["full", "replica", "no right"])


@pytest.fixture
def scene(place: Place, broker: Broker, tmp_path: Path) -> Iterator[DrainScene]:
    """Quick models and tools on a Redis of this test's own."""
    with drain_scene(replace(place, redis_url=broker.url), tmp_path) as made:
        made.hurry()
        yield made


def _start(scene: DrainScene, pool: Pool) -> None:
    scene.workers.start("step", pool, concurrency=4)
    scene.workers.start("tool", "prefork", concurrency=2)
    scene.workers.start("beat")


@REFUSALS
@pytest.mark.parametrize("pool", ["gevent", "prefork"])
def test_idle_workers_live_on_and_carry_runs(
    scene: DrainScene, broker: Broker, pool: Pool, how: Refusal
) -> None:
    _start(scene, pool)
    scene.workers.wait_ready()
    scene.accept("long_sleep")
    wait_until(lambda: scene.completed == 1, 30, "the system works")
    broker.refuse(how)
    began = time.monotonic()
    for _ in range(3):
        scene.accept("long_sleep")
    wait_until(lambda: scene.completed == 4, 45, "runs go on")
    print(f"{how}, {pool}: 3 runs, 6 steps: {time.monotonic() - began:.1f} s")  # noqa: T201 - measured
    broker.accept(how)
    scene.accept("long_sleep")
    wait_until(lambda: scene.completed == 5, 45, "they go on when it takes messages again")

    assert scene.number(_HARM) == 0
    assert scene.number("SELECT max(attempt) FROM calls") == 1
    assert scene.workers.died_unasked() == []


@REFUSALS
def test_workers_start_on_it_and_carry_a_run(
    scene: DrainScene, broker: Broker, how: Refusal
) -> None:
    broker.refuse(how)
    _start(scene, "gevent")
    scene.accept("long_sleep")
    wait_until(lambda: scene.completed == 1, 90, "a run is carried")
    assert scene.workers.died_unasked() == []
