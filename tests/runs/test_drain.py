"""A worker that is told to end while it is busy: gone in seconds, with nothing lost.

Every test prints the seconds it measured (`pytest -s`).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.invariants import violations
from tests.runs.drain_scene import DrainScene, drain_scene
from tests.services import Place
from tests.worker_processes import Pool, wait_until

PROMISED_SECONDS = 5.0
"""On a machine that does nothing else; `end` converts what it measures."""
PATIENCE_SECONDS = 90.0
HELD = """
SELECT (SELECT count(*) FROM runs WHERE work = 'held')
  + (SELECT count(*) FROM calls WHERE state = 'started') AS held
"""


@pytest.fixture
def scene(place: Place, tmp_path: Path) -> Iterator[DrainScene]:
    """Runs, their workers and their model."""
    with drain_scene(place, tmp_path) as made:
        yield made


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("pool", "streams"), [("gevent", 200), ("threads", 40), ("prefork", 4)])
def test_streams_of_a_worker_that_ends_are_handed_back_and_asked_again(
    scene: DrainScene, pool: Pool, streams: int
) -> None:
    first = scene.workers.start("step", pool, concurrency=streams)
    scene.workers.start("beat")
    scene.workers.wait_ready()
    for _ in range(streams + 5):  # and a few more that wait their turn
        scene.accept()
    wait_until(lambda: scene.model.open_streams == streams, PATIENCE_SECONDS, "all streams open")

    assert scene.end(first) < PROMISED_SECONDS
    assert scene.number(HELD) == 0
    assert scene.number("SELECT count(*) FROM workers") == 0
    assert scene.number("SELECT count(*) FROM runs WHERE work = 'ready'") == streams + 5
    asked = scene.model.requests
    assert scene.number("SELECT count(*) FROM model_calls WHERE decision = 'discard'") == asked

    scene.hurry()
    scene.workers.start("step", pool, concurrency=streams)
    wait_until(lambda: scene.completed == streams + 5, PATIENCE_SECONDS, "all runs completed")
    assert scene.number("SELECT count(*) FROM model_calls") == scene.model.requests
    assert scene.number("SELECT count(*) FROM model_calls WHERE state <> 'closed'") == 0
    assert scene.number("SELECT max(attempts) FROM runs") <= 1, "a hand-back counts nothing"
    assert violations(scene.database) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pool", "tool"),
    [("prefork", "long_sleep"), ("gevent", "long_sleep"), ("threads", "long_loop")],
)
def test_reads_of_a_worker_that_ends_are_cut_short_and_run_again_elsewhere(
    scene: DrainScene, pool: Pool, tool: str
) -> None:
    first = scene.workers.start("tool", pool, concurrency=8)
    scene.workers.start("step", "threads", concurrency=4)
    scene.workers.start("beat")
    scene.workers.wait_ready()
    for _ in range(2):
        scene.accept(*[tool] * 8)
    wait_until(lambda: len(scene.entries(tool)) == 8, PATIENCE_SECONDS, "eight reads run")

    assert scene.end(first) < PROMISED_SECONDS
    assert scene.number(HELD) == 0
    assert scene.number("SELECT count(*) FROM workers WHERE role LIKE 'tool%%'") == 0
    assert scene.number("SELECT count(*) FROM calls WHERE state = 'ready' AND attempt = 0") == 16
    assert len(scene.entries(tool)) == 8, "nothing was started after the end had begun"

    scene.hurry()
    scene.workers.start("tool", pool, concurrency=8)
    wait_until(lambda: scene.completed == 2, PATIENCE_SECONDS, "both runs completed")
    assert scene.number("SELECT max(attempt) FROM calls") == 1
    assert len(scene.entries(tool)) == 24
    assert scene.number("SELECT count(*) FROM model_calls") == scene.model.requests
    assert violations(scene.database) == []


@pytest.mark.slow
def test_a_change_is_finished_and_a_read_that_claims_a_result_is_run_again(
    scene: DrainScene,
) -> None:
    first = scene.workers.start("tool", "prefork", concurrency=2)
    scene.workers.start("step", "threads", concurrency=4)
    scene.workers.start("beat")
    scene.workers.wait_ready()
    scene.accept("change", "stubborn", "change")
    wait_until(
        lambda: len(scene.entries("change")) == 1 and len(scene.entries("stubborn")) == 1,
        PATIENCE_SECONDS,
        "a change and a read run",
    )

    assert scene.end(first) < PROMISED_SECONDS
    states = [row["state"] for row in scene.query("SELECT state FROM calls ORDER BY position")]
    assert states[:2] == ["returned", "ready"]
    assert scene.entries("changed") == scene.entries("change"), "the change was not cut short"

    scene.hurry()
    scene.workers.start("tool", "prefork", concurrency=2)
    wait_until(lambda: scene.completed == 1, PATIENCE_SECONDS, "the run completed")
    assert len(scene.entries("change")) == len(set(scene.entries("change"))) == 2, "each sent once"
    assert len(scene.entries("stubborn")) == 2
    assert violations(scene.database) == []


@pytest.mark.slow
def test_suspects_of_a_control_worker_that_ends_are_handed_back_and_stay_suspects(
    scene: DrainScene,
) -> None:
    first = scene.workers.start("control", "prefork", concurrency=2)
    scene.workers.start("beat")
    scene.workers.wait_ready()
    for _ in range(2):
        scene.accept()
    scene.query("UPDATE runs SET losses = 1, ring_at = NULL RETURNING id")
    wait_until(lambda: scene.model.open_streams == 2, PATIENCE_SECONDS, "both suspects stream")

    assert scene.end(first) < PROMISED_SECONDS
    assert scene.number(HELD) == 0
    assert scene.number("SELECT count(*) FROM runs WHERE work = 'ready' AND losses = 1") == 2

    scene.hurry()
    scene.workers.start("control", "prefork", concurrency=2)
    wait_until(lambda: scene.completed == 2, PATIENCE_SECONDS, "both runs completed")
    assert scene.number("SELECT count(*) FROM model_calls") == scene.model.requests
    assert scene.number("SELECT count(*) FROM model_calls WHERE state <> 'closed'") == 0
    assert violations(scene.database) == []
