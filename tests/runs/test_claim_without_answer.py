"""A claim that commits after its worker has given it up: the worker holds what it knows not of."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.steps import claim_step
from tests.invariants import violations
from tests.runs.drain_scene import DrainScene, drain_scene
from tests.services import Place
from tests.worker_processes import wait_until
from umbel.contracts import WorkerId

pytestmark = pytest.mark.slow

DEAD_AFTER_SECONDS = 120.0


@pytest.fixture
def scene(place: Place, tmp_path: Path) -> Iterator[DrainScene]:
    """Where nobody is dead for two minutes."""
    with drain_scene(place, tmp_path) as made:
        made.workers.environment["UMBEL_DEAD_AFTER_SECONDS"] = f"{DEAD_AFTER_SECONDS}"
        made.hurry()
        yield made


def test_it_is_given_back_within_beats_and_not_only_by_its_death(scene: DrainScene) -> None:
    scene.workers.start("step", "gevent", concurrency=1)
    scene.workers.wait_ready()
    [worker] = scene.query("SELECT id FROM workers")
    run_id = scene.accept(ring=False)
    assert claim_step(scene.database, run_id, 1, WorkerId(worker["id"])) is not None
    began = time.monotonic()
    wait_until(lambda: scene.completed == 1, 60, "the run goes on")
    print(f"completed {time.monotonic() - began:.1f} s after the claim")  # noqa: T201 - measured
    assert scene.number("SELECT count(*) FROM model_calls WHERE state = 'closed'") == 1
    assert "forgotten run given back" in scene.workers.log()
    assert violations(scene.database) == []
