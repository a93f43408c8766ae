"""A tenant's ten thousand ready runs: the broker's list stays short, and others are not kept."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import redis

from tasks.acceptance import AgentSpec, NewRequest, accept
from tests.runs.drain_scene import DrainScene, drain_scene
from tests.services import Place
from tests.worker_processes import wait_until
from tools.registry import ToolRegistry
from umbel.contracts import Principal, RunId
from umbel.names import LOOP_QUEUE

pytestmark = pytest.mark.slow

SLOTS: Final = 4
SWEEP_SECONDS: Final = 0.5
# Ten thousand like the one that was accepted, each in a thread of its own.
_THREADS: Final = """
INSERT INTO threads (id, tenant, owner)
SELECT id || '_' || n, tenant, owner FROM threads, generate_series(1, %(count)s) AS n
WHERE id = (SELECT thread_id FROM runs WHERE id = %(run_id)s)
"""
_RUNS: Final = """
INSERT INTO runs (id, tenant, thread_id, owner, status, work, ring_at, next_seq)
SELECT id || '_' || n, tenant, thread_id || '_' || n, owner, status, work, now(), next_seq
FROM runs, generate_series(1, %(count)s) AS n WHERE id = %(run_id)s
"""
_SPECS: Final = """
INSERT INTO run_specs (run_id, tenant, principal, agent, profile, model, wire, instructions,
  policy, policy_sha, tools, tools_sha)
SELECT run_id || '_' || n, tenant, principal, agent, profile, model, wire, instructions,
  policy, policy_sha, tools, tools_sha
FROM run_specs, generate_series(1, %(count)s) AS n WHERE run_id = %(run_id)s
"""
_ENTRIES: Final = """
INSERT INTO entries (id, tenant, thread_id, run_id, kind, author, text)
SELECT id || '_' || n, tenant, thread_id || '_' || n, run_id || '_' || n, kind, author, text
FROM entries, generate_series(1, %(count)s) AS n WHERE run_id = %(run_id)s
"""
_WAITED: Final = """
SELECT extract(epoch FROM opened_at - accepted_at)::float8 AS waited
FROM runs r JOIN model_calls m ON m.run_id = r.id WHERE r.id = %(run_id)s
"""


@pytest.fixture
def scene(place: Place, tmp_path: Path) -> Iterator[DrainScene]:
    """A quick model, one step worker with few slots, and beat."""
    with drain_scene(place, tmp_path) as made:
        made.hurry()
        clocks = {
            "UMBEL_SWEEP_SECONDS": f"{SWEEP_SECONDS}",
            "UMBEL_RING_AFTER_SECONDS": "5",
            "UMBEL_STEP_CONCURRENCY": f"{SLOTS}",
        }
        made.workers.start("step", "gevent", concurrency=SLOTS, environment=clocks)
        made.workers.start("beat", environment=clocks)
        made.workers.wait_ready()
        yield made


def test_ten_thousand_runs_of_one_tenant_do_not_keep_another(
    scene: DrainScene, place: Place
) -> None:
    flood(scene, 10_000)
    wait_until(lambda: scene.completed > 2 * SLOTS, 30, "the flood is being carried")
    longest = list_length(place)
    waits: list[float] = []
    for _ in range(5):
        run_id = of_tenant(scene, "small")
        wait_until(lambda: bool(waited(scene, run_id)), 20, "it is claimed")  # noqa: B023 - at once
        waits.append(waited(scene, run_id)[0])
        longest = max(longest, list_length(place))
    left = scene.number("SELECT count(*) FROM runs WHERE work = 'ready'")
    print({"waits": [round(w, 2) for w in waits], "list": longest, "ready": left})  # noqa: T201 - measured

    assert left > 5_000, "the flood was still there"
    assert max(waits) < 2 * SWEEP_SECONDS
    assert longest <= max(10, 2 * SLOTS)


def flood(scene: DrainScene, count: int) -> None:
    """Ready runs of one tenant, none of them announced."""
    asked = {"run_id": of_tenant(scene, "flood"), "count": count}
    scene.database.run(*((sql, asked) for sql in (_THREADS, _RUNS, _SPECS, _ENTRIES)))


def of_tenant(scene: DrainScene, tenant: str) -> RunId:
    """A run that nobody was told of."""
    request = NewRequest(Principal(tenant=tenant, user="ann"), "Go.", "m")
    return accept(scene.database, ToolRegistry([]), AgentSpec(), request).run_id


def waited(scene: DrainScene, run_id: RunId) -> list[float]:
    """Seconds from acceptance to the first claim, once it is claimed."""
    [rows] = scene.database.run((_WAITED, {"run_id": run_id}))
    return [row["waited"] for row in rows]


def list_length(place: Place) -> int:
    """Messages of the loop's queue."""
    with redis.Redis.from_url(place.redis_url) as client:
        return int(client.llen(f"{{{place.redis_prefix}}}:{LOOP_QUEUE}"))
