"""Redis is away for longer than a lock or a silent worker may last: whatever is at work goes on."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import pytest

from tests.invariants import violations
from tests.runs.drain_scene import DrainScene, drain_scene
from tests.runs.private_broker import Broker
from tests.services import Place
from tests.worker_processes import FAST_CLOCKS, wait_until

pytestmark = pytest.mark.slow

DEAD_AFTER_SECONDS: Final = 6.0
CLOCKS: Final = {**FAST_CLOCKS, "UMBEL_DEAD_AFTER_SECONDS": f"{DEAD_AFTER_SECONDS}"}
"""A lock of a run lives as long as a worker may be silent."""
OUTAGE_SECONDS: Final = 1.5 * DEAD_AFTER_SECONDS
HARM: Final = """
SELECT count(*) FROM events WHERE kind IN
  ('run.taken_over', 'step.handed_back', 'step.fenced_out', 'step.discarded', 'call.unknown')
"""


@pytest.fixture
def scene(place: Place, broker: Broker, tmp_path: Path) -> Iterator[DrainScene]:
    """Workers of each kind on a Redis of this test's own."""
    with drain_scene(replace(place, redis_url=broker.url), tmp_path) as made:
        made.workers.start("step", "gevent", concurrency=10, environment=CLOCKS)
        made.workers.start("tool", "prefork", concurrency=3, environment=CLOCKS)
        made.workers.start("beat", environment=CLOCKS)
        made.workers.wait_ready()
        yield made


@pytest.mark.parametrize("outage", ["killed", "frozen"])
def test_an_outage_of_redis_takes_nothing_from_anybody(
    scene: DrainScene, broker: Broker, outage: Literal["killed", "frozen"]
) -> None:
    scene.accept()
    scene.accept("long_loop", "long_change")
    wait_until(lambda: scene.model.open_streams == 1, 30, "a model speaks")
    wait_until(
        lambda: bool(scene.entries("long_loop") and scene.entries("long_change")),
        30,
        "a read and a change run",
    )
    began = time.monotonic()
    if outage == "killed":
        broker.kill()
    else:
        broker.freeze()
    try:
        scene.accept("long_loop", ring=False)
        wait_until(lambda: len(scene.entries("long_loop")) == 2, 30, "work goes on without Redis")
        wait_until(
            lambda: time.monotonic() - began > OUTAGE_SECONDS,
            2 * OUTAGE_SECONDS,
            "every lock and every patience is over",
        )
        assert scene.number(HARM) == 0
    finally:
        if outage == "killed":
            broker.start()
        else:
            broker.thaw()
    scene.hurry()
    wait_until(lambda: scene.completed == 3, 60, "all runs are completed")
    scene.accept("long_loop", ring=False)
    wait_until(lambda: scene.completed == 4, 60, "so are later ones")

    assert scene.number(HARM) == 0
    assert scene.number("SELECT max(attempt) FROM calls") == 1
    assert scene.number("SELECT count(*) FROM model_calls") == scene.model.requests == 7
    assert len(scene.entries("long_change")) == len(scene.entries("long_changed")) == 1
    assert scene.workers.died_unasked() == []
    assert violations(scene.database) == []
