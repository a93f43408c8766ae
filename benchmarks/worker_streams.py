"""Many runs whose model streams are all open at once, in one real gevent step worker.

`python benchmarks/worker_streams.py [COUNT]` (default 1000) starts embedded servers, one worker and
one beat, and prints one line of JSON. It fails if a run is not completed, a usage row is missing,
or the worker grew beyond 250 MB.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Final

import psutil

from models.database import Database
from models.migration import migrate
from tasks.acceptance import AgentSpec, NewRequest, accept
from tools.registry import ToolRegistry
from umbel.contracts import Principal
from umbel.embedded import embedded_servers

MAX_RSS_MB: Final = 250
CHUNKS: Final = 40
GAP_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 300.0
_SERVER: Final = Path(__file__).with_name("stream_server.py")
_STATE: Final = """
SELECT count(*) FILTER (WHERE status = 'completed') AS completed,
  count(*) FILTER (WHERE work = 'held') AS held FROM runs
"""
_USAGE: Final = """
SELECT count(*) AS rows, coalesce(sum(output_tokens), 0) AS tokens FROM model_calls
WHERE decision = 'answer' AND output_tokens IS NOT NULL
"""


@contextmanager
def running(*command: str, **settings: str) -> Iterator["subprocess.Popen[str]"]:
    """A process for the block, stopped politely."""
    with subprocess.Popen(  # noqa: S603 - our own commands
        [sys.executable, *command],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def run(count: int) -> dict[str, float]:
    """Accept `count` runs, let one worker carry them, and look on."""
    with ExitStack() as stack:
        servers = stack.enter_context(embedded_servers())
        migrate(servers.database_url)
        model = stack.enter_context(
            running(str(_SERVER), str(count), str(CHUNKS), str(GAP_SECONDS))
        )
        assert model.stdout is not None  # noqa: S101 - it is a pipe
        settings = {
            "UMBEL_DATABASE_URL": servers.database_url,
            "UMBEL_REDIS_URL": servers.redis_url,
            "UMBEL_MODEL_BASE_URL": f"http://127.0.0.1:{int(model.stdout.readline())}/v1",
            "UMBEL_MODEL": "m",
            "UMBEL_STEP_CONCURRENCY": str(count),
        }
        database = Database(servers.database_url, role="bench", pool_size=2)
        stack.callback(database.close)
        celery = ("-m", "celery", "-A", "umbel.server")
        worker = stack.enter_context(
            running(
                *(*celery, "worker", "-P", "gevent", "-c", str(count), "-Q", "umbel.loop"),
                *("-n", "step@%h", "--without-gossip", "--without-mingle", "-l", "ERROR"),
                **settings,
            )
        )
        for _ in range(count):
            request = NewRequest(Principal(tenant="bench", user="bench"), "x" * 4_000, "m")
            accept(database, ToolRegistry([]), AgentSpec(), request)
        stack.enter_context(running(*celery, "beat", "--pidfile=", "-l", "ERROR", **settings))
        return _watch(database, psutil.Process(worker.pid), count)


def _watch(database: Database, worker: psutil.Process, count: int) -> dict[str, float]:
    began, pause = time.monotonic(), Event()
    peak_mb = peak_held = 0.0
    state: dict[str, int] = {}
    while time.monotonic() - began < PATIENCE_SECONDS:
        [[state]] = database.run((_STATE, {}))
        peak_held = max(peak_held, state["held"])
        peak_mb = max(peak_mb, worker.memory_info().rss / 2**20)
        if state["completed"] == count:
            break
        pause.wait(0.25)
    times = worker.cpu_times()
    [[usage]] = database.run((_USAGE, {}))
    return {
        "runs": count,
        "completed": state["completed"],
        "usage_rows": usage["rows"],
        "usage_is_right": int(usage["tokens"]) == 5 * CHUNKS * count,
        "most_streams_at_once": peak_held,
        "max_rss_mb": round(peak_mb, 1),
        "wall_seconds": round(time.monotonic() - began, 1),
        "worker_cpu_seconds": round(times.user + times.system, 1),
    }


def main() -> int:
    """Run and judge."""
    result = run(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
    sys.stdout.write(json.dumps(result) + "\n")
    is_whole = result["completed"] == result["usage_rows"] == result["runs"]
    is_right = is_whole and result["usage_is_right"] and result["max_rss_mb"] < MAX_RSS_MB
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
