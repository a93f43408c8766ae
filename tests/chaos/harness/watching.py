"""Looks at the system while it runs: for what no record can show afterwards."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psycopg

from tests.chaos.harness.crew import Crew
from tests.chaos.harness.servers import PREFIX, Servers

LONGEST_IDLE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.5
_LOOKS_FOR_STANDSTILL: Final = 12
_READS: Final = ("unix_stream_read_generic", "unix_stream_data_wait", "sk_wait_data")
"""Where the kernel lets a process wait that reads from a socket."""
_IDLE: Final = f"""
SELECT application_name, pid, left(query, 120) FROM pg_stat_activity
WHERE state LIKE 'idle in transaction%' AND application_name LIKE 'umbel-%'
  AND clock_timestamp() - state_change > interval '{LONGEST_IDLE_SECONDS:g} seconds'
"""


class Watch:
    """Samples sessions; `looks` says how often it could."""

    def __init__(self, servers: Servers, crew: Crew) -> None:
        self._servers = servers
        self._crew = crew
        self.looks = 0
        self.idle: list[str] = []
        """Transactions that stood open too long although nobody was frozen."""

    def keep_looking(self, is_over: threading.Event) -> None:
        """Until it is over."""
        while not is_over.wait(_LOOK_SECONDS):
            try:
                with self._servers.connect() as connection:
                    while not is_over.wait(_LOOK_SECONDS):
                        rows = connection.execute(_IDLE).fetchall()
                        self.looks += 1
                        if not self._crew.was_frozen_within(LONGEST_IDLE_SECONDS + 1):
                            self.idle.extend(str(row) for row in rows)
            except psycopg.Error:
                continue  # PostgreSQL is away, or has forgotten us


def endless_keys(servers: Servers) -> list[str]:
    """Our keys in Redis that would stay for ever; the broker's own lists do."""
    with servers.redis() as client:
        ours = client.scan_iter(match=f"{PREFIX}:*", count=1000)
        return [key.decode() for key in ours if int(client.ttl(key)) == -1]


def standing_still(crew: Crew) -> list[str]:
    """Workers whose main thread reads from a socket at every look, instead of waiting for events.

    Their beats come from another thread, so that nobody takes their work. A system that does not
    show where a process waits shows none.
    """
    pause, suspects = threading.Event(), {w.name: w.pid for w in crew.leaders()}
    for _ in range(_LOOKS_FOR_STANDSTILL):
        suspects = {name: pid for name, pid in suspects.items() if _waits_in(pid) in _READS}
        if not suspects:
            break
        pause.wait(0.3)
    return sorted(suspects)


def _waits_in(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return ""


def in_thread(work: Callable[[], None], failures: list[BaseException]) -> threading.Thread:
    """A started thread; what it raises is kept."""

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the harness's own thread must not die unheard
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
