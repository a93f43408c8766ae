"""Throughput while Redis is emptied every ten seconds, or is gone.

`python benchmarks/redis_away.py [SECONDS]` starts embedded PostgreSQL, a Valkey of its own, a
gevent step worker, two tool processes and beat. It carries runs of two steps and two calls for so
long (default 120): undisturbed, then wiped, then with Valkey killed for the middle half. Prints a
line of JSON each: throughput, its share of the undisturbed one, the load of the machine, what went
wrong, and a digest of what came of the runs, which must be the same three times.
"""

import hashlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.runs.drain_scene import DrainScene, drain_scene
from tests.runs.logical_result import logical_result
from tests.runs.private_broker import Broker
from tests.services import fresh_place, running_services
from tests.worker_processes import wait_until

_HARM = """
SELECT count(*) FROM events WHERE kind IN ('run.taken_over', 'step.fenced_out', 'call.unknown')
"""
_AHEAD = 30
"""Runs that wait or are at work at any time."""


def carry(scene: DrainScene, seconds: float, disturb: Callable[[float], None]) -> dict[str, object]:
    """Keep the workers busy for so long; runs per second and what went wrong."""
    began, before, pause = time.monotonic(), scene.completed, threading.Event()
    while (passed := time.monotonic() - began) < seconds:
        disturb(passed)
        while len(scene.runs) - scene.completed < _AHEAD:
            scene.accept("long_sleep", "long_loop")
        pause.wait(0.1)
    per_second = round((scene.completed - before) / seconds, 2)
    wait_until(lambda: scene.completed == len(scene.runs), 120, "the last runs are completed")
    return {
        "runs_per_second": per_second,
        "runs": len(scene.runs),
        "harm": scene.number(_HARM),
        "model_requests_too_many": scene.model.requests - 2 * len(scene.runs),
        "workers_lost": len(scene.workers.died_unasked()),
        "load": round(os.getloadavg()[0], 1),
        "digests": digests(scene),
    }


def digests(scene: DrainScene) -> list[str]:
    """Of what came of the runs, each different one once."""
    results = {repr(logical_result(scene.database, run)) for run in scene.runs}
    return sorted(hashlib.sha256(result.encode()).hexdigest()[:12] for result in results)


def measure(name: str, seconds: float) -> dict[str, object]:
    """One scene in a system of its own."""
    with (
        running_services() as services,
        fresh_place(services) as place,
        tempfile.TemporaryDirectory(prefix="umbel-") as socket,
        tempfile.TemporaryDirectory() as folder,
    ):
        broker = Broker(Path(socket))
        broker.start()
        with drain_scene(replace(place, redis_url=broker.url), Path(folder)) as scene:
            clocks = {"UMBEL_RING_AFTER_SECONDS": "5", "UMBEL_SWEEP_SECONDS": "0.5"}
            scene.hurry()
            scene.workers.start("step", "gevent", concurrency=20, environment=clocks)
            scene.workers.start("tool", "prefork", concurrency=2, environment=clocks)
            scene.workers.start("beat", environment=clocks)
            scene.workers.wait_ready()
            scenes: dict[str, Callable[[float], None]] = {
                "undisturbed": _leave,
                "wiped": _Wiper(broker),
                "stopped": _Stopper(broker, seconds),
            }
            result = {"scene": name, "seconds": seconds, **carry(scene, seconds, scenes[name])}
        broker.kill()
    return result


def _leave(_passed: float) -> None:
    """Nothing happens."""


class _Wiper:
    """Empties the broker every ten seconds."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next = 10.0

    def __call__(self, passed: float) -> None:
        if passed >= self._next:
            self._next += 10.0
            self._broker.wipe()


class _Stopper:
    """Kills the broker after a quarter of the time and starts it again after three."""

    def __init__(self, broker: Broker, seconds: float) -> None:
        self._broker = broker
        self._from, self._to = seconds / 4, 3 * seconds / 4
        self._is_down = False

    def __call__(self, passed: float) -> None:
        if not self._is_down and self._from <= passed < self._to:
            self._broker.kill()
            self._is_down = True
        elif self._is_down and passed >= self._to:
            self._broker.start()
            self._is_down = False


def main(seconds: float) -> None:
    """All scenes, one after the other."""
    undisturbed = 0.0
    for name in ("undisturbed", "wiped", "stopped"):
        result = measure(name, seconds)
        speed = float(str(result["runs_per_second"]))
        undisturbed = undisturbed or speed
        share = round(speed / undisturbed, 2) if undisturbed else None
        sys.stdout.write(json.dumps(result | {"share_of_undisturbed": share}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 120.0)
