"""How long everything takes to settle after everything was killed, with the default clocks.

`python benchmarks/heal.py [ROUNDS]` starts embedded PostgreSQL and Valkey, two step workers, a tool
worker and beat. In each round (default 5) forty runs stream, read and change; then every worker,
PostgreSQL and Valkey are killed. All of it is started again, the workers under other names, so that
nobody knows at once that their predecessors are dead. Prints a line of JSON a round: seconds until
each run was settled, from the moment when the servers answered and the workers were started again.
"""

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from tests.invariants import violations
from tests.runs.drain_scene import DrainScene, drain_scene
from tests.services import Databases, Place
from tests.worker_processes import wait_until
from umbel.embedded import EmbeddedServers, embedded_servers
from umbel.errors import Unavailable

_CLOCKS = {
    "UMBEL_BEAT_SECONDS": "3",
    "UMBEL_DEAD_AFTER_SECONDS": "15",
    "UMBEL_SWEEP_SECONDS": "0.5",
    "UMBEL_RING_AFTER_SECONDS": "5",
}
_IN_FLIGHT = 40
_AT_WORK = """
SELECT (SELECT count(*) FROM runs WHERE work = 'held')
  + (SELECT count(*) FROM calls WHERE state = 'started') AS at_work
"""
_SETTLED = """
SELECT status, extract(epoch FROM settled_at - %(since)s)::float8 AS seconds
FROM runs WHERE settled_at > %(since)s ORDER BY 2
"""
_NOW = "SELECT clock_timestamp() AS now"
_PATIENCE_SECONDS = 300.0


def start_all(scene: DrainScene) -> None:
    """A crew under new names, ready."""
    for _ in range(2):
        scene.workers.start("step", "gevent", concurrency=40, environment=_CLOCKS)
    scene.workers.start("tool", "prefork", concurrency=8, environment=_CLOCKS)
    scene.workers.start("beat", environment=_CLOCKS)
    scene.workers.wait_ready()


def kill_all(scene: DrainScene, servers: EmbeddedServers) -> None:
    """Everybody at once."""
    for worker in scene.workers.workers:
        if not worker.has_ended.is_set():
            scene.workers.kill(worker.pid)
    for server in servers.processes:
        os.kill(server.pid, signal.SIGKILL)


def bring_back(servers: EmbeddedServers) -> None:
    """PostgreSQL and Valkey on their data."""

    def is_back(name: str) -> bool:
        server = next(each for each in servers.processes if each.name == name)
        try:
            server.restart()
            server.wait()
        except Unavailable:  # a process of the killed one is still about
            return False
        return True

    for name in [server.name for server in servers.processes]:
        wait_until(lambda: is_back(name), 60, f"{name} is back")  # noqa: B023 - at once


def answers(scene: DrainScene) -> bool:
    """Whether PostgreSQL does: connections from before its death do not."""
    try:
        scene.query(_NOW)
    except Unavailable:
        return False
    return True


def one_round(scene: DrainScene, servers: EmbeddedServers) -> dict[str, object]:
    """Hurt, heal, and wait."""
    scene.take_time()
    for number in range(_IN_FLIGHT):
        scene.accept(*[(), ("long_loop",), ("long_change",), ("long_loop", "change")][number % 4])
    wait_until(lambda: scene.number(_AT_WORK) >= _IN_FLIGHT / 2, 60, "half of them are at work")
    kill_all(scene, servers)
    scene.hurry()
    bring_back(servers)
    wait_until(lambda: answers(scene), 60, "PostgreSQL answers")
    since = scene.query(_NOW)[0]["now"]
    start_all(scene)
    ready = scene.query(_NOW)[0]["now"]
    unsettled = "SELECT count(*) FROM runs WHERE settled_at IS NULL"
    wait_until(lambda: scene.number(unsettled) == 0, _PATIENCE_SECONDS, "all runs are settled")
    [rows] = scene.database.run((_SETTLED, {"since": since}))
    seconds = [row["seconds"] for row in rows]
    return {
        "runs": _IN_FLIGHT,
        "unknown": sum(row["status"] == "paused" for row in rows),
        "median": round(seconds[len(seconds) // 2], 1),
        "last": round(seconds[-1], 1),
        "last_after_ready": round(seconds[-1] - (ready - since).total_seconds(), 1),
        "load": round(os.getloadavg()[0], 1),
        "violations": violations(scene.database),
    }


def main(rounds: int) -> None:
    """All rounds on one pair of servers."""
    with (
        embedded_servers() as servers,
        tempfile.TemporaryDirectory() as folder,
    ):
        databases = Databases(servers.database_url)
        place = Place(databases.create(), servers.redis_url, "heal")
        with drain_scene(place, Path(folder)) as scene:
            start_all(scene)
            for number in range(rounds):
                result = {"round": number + 1, **one_round(scene, servers)}
                sys.stdout.write(json.dumps(result) + "\n")
                sys.stdout.flush()
        databases.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
