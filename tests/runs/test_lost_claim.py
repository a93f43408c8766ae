"""A worker that lost its claim while its model speaks hangs up, and is there for other runs."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.invariants import violations
from tests.runs.drain_scene import DrainScene, drain_scene, slowness
from tests.services import Place
from tests.worker_processes import FAST_CLOCKS, Pool, wait_until

pytestmark = pytest.mark.slow

PROMISED_SECONDS = 5.0
"""A beat, a second until the stream is asked again, and time to hang up; on an idle machine."""


@pytest.fixture
def scene(place: Place, tmp_path: Path) -> Iterator[DrainScene]:
    """Where a worker that does not beat is dead after seconds."""
    with drain_scene(place, tmp_path) as made:
        made.workers.environment |= FAST_CLOCKS
        yield made


@pytest.mark.parametrize("pool", ["gevent", "prefork"])
def test_a_worker_that_lost_its_claim_ends_its_stream_and_carries_other_runs(
    scene: DrainScene, pool: Pool
) -> None:
    first = scene.workers.start("step", pool, concurrency=1)
    scene.workers.start("beat")
    scene.workers.wait_ready()
    taken = scene.accept()
    wait_until(lambda: scene.model.open_streams == 1, 30, "the model speaks")
    second = scene.workers.start("step", "gevent", concurrency=1)
    scene.workers.wait_ready()
    scene.workers.freeze(first.pid)
    wait_until(lambda: scene.model.open_streams == 2, 30, "another worker has asked again")
    factor = slowness()
    scene.workers.continue_all()
    began = time.monotonic()
    wait_until(lambda: scene.model.open_streams == 1, 60, "the first worker has hung up")
    seconds = time.monotonic() - began
    print(f"{pool}: hung up after {seconds:.1f} s, {factor:.1f} times slower")  # noqa: T201 - measured
    assert seconds / max(factor, slowness()) < PROMISED_SECONDS

    other = scene.accept()  # the second worker is busy
    wait_until(lambda: scene.model.open_streams == 2, 30, "the first worker carries another run")
    scene.hurry()
    wait_until(lambda: scene.completed == 2, 30, "both runs are completed")

    rows = scene.query("SELECT run_id, attempt, state, decision FROM model_calls ORDER BY attempt")
    assert {(r["run_id"], r["attempt"]): (r["state"], r["decision"]) for r in rows} == {
        (taken, 1): ("closed", "discard"),
        (taken, 2): ("closed", "answer"),
        (other, 1): ("closed", "answer"),
    }
    assert not second.has_ended.is_set()
    assert scene.workers.died_unasked() == []
    assert violations(scene.database) == []
