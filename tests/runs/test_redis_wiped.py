"""Scenario 13: Redis is emptied while runs act, one of them corrected and one stopped."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from models.owner import steer_run, stop_run
from tests.invariants import violations
from tests.runs.drain_scene import OWNER, DrainScene, drain_scene
from tests.runs.logical_result import LogicalResult, logical_result
from tests.runs.private_broker import Broker
from tests.runs.test_redis_outage import HARM
from tests.services import Place
from tests.worker_processes import PATIENT_CLOCKS, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def scene(place: Place, broker: Broker, tmp_path: Path) -> Iterator[DrainScene]:
    """Workers of each kind on a Redis of this test's own."""
    with drain_scene(replace(place, redis_url=broker.url), tmp_path) as made:
        made.workers.environment |= PATIENT_CLOCKS
        made.workers.start("step", "gevent", concurrency=10)
        made.workers.start("tool", "prefork", concurrency=4)
        made.workers.start("beat")
        made.workers.wait_ready()
        yield made


def acted(scene: DrainScene, disturb: Callable[[], None]) -> list[LogicalResult]:
    """What comes of three runs that act while they are corrected, stopped, and disturbed."""
    scene.take_time()
    working = len(scene.entries("long_change")) + 2
    corrected, stopped = (scene.accept("long_change", "long_loop") for _ in range(2))
    speaking = scene.accept()
    wait_until(
        lambda: len(scene.entries("long_change")) == len(scene.entries("long_loop")) == working,
        60,
        "two changes and two reads run",
    )
    wait_until(lambda: scene.model.open_streams == 1, 60, "a model speaks")
    steer_run(scene.database, corrected, OWNER, "Use staging.", "append")
    stop_run(scene.database, stopped, OWNER)
    disturb()
    scene.hurry()
    runs = [corrected, stopped, speaking]
    settled = "SELECT count(*) FROM runs WHERE settled_at IS NOT NULL"
    wait_until(lambda: scene.number(settled) == len(scene.runs), 60, "all runs are settled")
    return [logical_result(scene.database, run) for run in runs]


def test_emptying_redis_loses_no_correction_no_stop_and_no_call(
    scene: DrainScene, broker: Broker
) -> None:
    undisturbed = acted(scene, lambda: None)
    wiped = acted(scene, broker.wipe)

    assert wiped == undisturbed
    [corrected, stopped, speaking] = [result[0][0] for result in wiped]
    assert corrected[:2] == ("completed", None)
    assert stopped[:2] == ("cancelled", "owner_stop")
    assert speaking[:2] == ("completed", None)
    assert [steer[3] for steer in wiped[0][3]] == ["applied"]
    assert len(scene.entries("long_change")) == len(scene.entries("long_changed")) == 4
    assert scene.number(HARM) == 0
    assert scene.number("SELECT max(attempt) FROM calls") == 1
    assert scene.number("SELECT count(*) FROM model_calls") == scene.model.requests
    assert scene.workers.died_unasked() == []
    assert violations(scene.database) == []
