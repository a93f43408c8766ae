"""The scheduler class that `celery -A umbel.server beat` runs: the sweeper with its settings."""

import os
import socket
import time

from locks.ownership import OwnershipLocks, connect
from models.database import Database
from scheduler.beat import SweepScheduler
from scheduler.sweeper import OutageMemory, Sweeper
from tasks.ringing import Ringer
from tasks.runtime import queue_room, required_urls
from tasks.tally_writer import TallyWriter
from tasks.tracing import NoTracer, Tracer, make_tracer
from umbel.settings import load_settings
from umbel.tallies import Tallies


class Scheduler(SweepScheduler):
    """Beat of this deployment; hold as many as you like."""

    _writer: TallyWriter | None = None
    _tracer: Tracer = NoTracer()

    def make_sweeper(self) -> Sweeper:
        """The sweeper of this process."""
        settings = load_settings()
        database_url, redis_url = required_urls(settings)
        role = f"beat-{socket.gethostname()}-{os.getpid()}"
        database = Database(database_url, role=role[:40], pool_size=2)
        client = connect(redis_url, role="beat")
        tallies = Tallies()
        self._writer = TallyWriter(tallies, database)
        self._writer.start(settings.beat_seconds)
        self._tracer = make_tracer(settings, database, role="beat", instance=role)
        return Sweeper(
            database=database,
            locks=OwnershipLocks(
                client,
                prefix=settings.redis_prefix,
                ttl_seconds=settings.dead_after_seconds,
            ),
            bell=Ringer(self.app, queue_room(settings, database, client)),
            dead_after_seconds=settings.dead_after_seconds,
            ring_after_seconds=settings.ring_after_seconds,
            # Until whoever lives has had time to beat: PostgreSQL may just have come back.
            outages=OutageMemory(time.monotonic() - settings.dead_after_seconds),
            tallies=tallies,
            on_settled=self._tracer.run_settled,
        )

    def close(self) -> None:
        """Beat ends."""
        super().close()
        if self._writer is not None:
            self._writer.finish()
        self._tracer.finish()
