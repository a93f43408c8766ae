"""Silent tools in real workers, on every pool."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.invariants import violations
from tests.runs.drain_scene import DrainScene, drain_scene
from tests.services import Place
from tests.worker_processes import Pool, wait_until
from tools.registry import load_registry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TOOLS: Final = "tests.runs.stall_tools"
PATIENCE_SECONDS: Final = 150.0
SETTLED: Final = """
SELECT c.tool, c.state, c.attempt, coalesce(e.body, '') AS body, r.status
FROM calls c JOIN runs r ON r.id = c.run_id LEFT JOIN evidence e ON e.call_id = c.id
"""


@pytest.fixture
def scene(place: Place, tmp_path: Path) -> Iterator[DrainScene]:
    with drain_scene(place, tmp_path) as scene:
        scene.registry = load_registry((TOOLS,))
        scene.hurry()
        yield scene


def start(scene: DrainScene, pool: Pool, concurrency: int) -> None:
    environment = {"UMBEL_TOOLS": TOOLS}
    scene.workers.start("tool", pool, concurrency=concurrency, environment=environment)
    scene.workers.start("step", "threads", concurrency=4, environment=environment)
    scene.workers.start("beat")
    scene.workers.wait_ready()


def outcomes(scene: DrainScene, *tools: str) -> dict[str, tuple[str, str]]:
    """What became of each call and its run, once all runs have settled."""
    for tool in tools:
        scene.accept(tool)
    unsettled = "SELECT count(*) FROM runs WHERE settled_at IS NULL"
    wait_until(lambda: scene.number(unsettled) == 0, PATIENCE_SECONDS, "every run has settled")
    found = scene.query(SETTLED)
    assert {row["attempt"] for row in found} == {1}, "nothing silent is tried again"
    assert all("stalled" in row["body"] for row in found if row["state"] == "errored")
    return {row["tool"]: (row["state"], row["status"]) for row in found}


def test_silent_code_ends_on_prefork_even_where_no_python_runs(scene: DrainScene) -> None:
    start(scene, "prefork", 3)
    hard = ("silent_read", "silent_change", "talking_read", "deaf_read", "frozen_read")
    assert outcomes(scene, *hard) == {
        "silent_read": ("errored", "completed"),
        "silent_change": ("unknown", "paused"),
        "talking_read": ("returned", "completed"),
        "deaf_read": ("errored", "completed"),
        "frozen_read": ("errored", "completed"),
    }
    for signal in ("SIGKILL", "SIGPROF"):  # of the deaf tool's child, and of the frozen one's
        wait_until(lambda: f"({signal})" in scene.workers.log(), PATIENCE_SECONDS, signal)  # noqa: B023 - waited for at once
    for _ in range(3):
        scene.accept("talking_read")
    wait_until(lambda: scene.completed == 4 + 3, PATIENCE_SECONDS, "every child works again")
    assert violations(scene.database) == []


@pytest.mark.parametrize("pool", ["gevent", "threads"])
def test_silent_code_ends_on_pools_of_one_process(scene: DrainScene, pool: Pool) -> None:
    start(scene, pool, 8)
    assert outcomes(scene, "silent_read", "silent_change", "talking_read") == {
        "silent_read": ("errored", "completed"),
        "silent_change": ("unknown", "paused"),
        "talking_read": ("returned", "completed"),
    }
    assert violations(scene.database) == []
