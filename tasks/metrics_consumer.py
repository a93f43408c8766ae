"""What the process that reads messages does for metrics: counts what it rejects, serves the page.

In a prefork worker that is the parent, which has no runtime; its pool connects only when needed.
"""

from celery import signals

from models.database import Database
from tasks.message_guard import message_dropped
from tasks.metrics import SystemCollector
from tasks.metrics_server import CONTROL_ROLE, BrokerReader, MetricsServer, RecordReader
from tasks.runtime import required_urls
from tasks.tally_writer import TallyWriter
from umbel.settings import Settings
from umbel.tallies import MESSAGES_REJECTED, Tallies


class ConsumerMetrics:
    """Started once the pool has been forked."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tallies = Tallies()
        self._database: Database | None = None
        self._writer: TallyWriter | None = None
        self._server: MetricsServer | None = None

    def start(self, role: str) -> None:
        """Write what is counted from now on; a control worker serves the page as well."""
        settings = self._settings
        database_url, redis_url = required_urls(settings)
        self._database = Database(database_url, role=f"{role}-metrics", pool_size=2)
        self._writer = TallyWriter(self._tallies, self._database)
        self._writer.start(settings.beat_seconds)
        if role == CONTROL_ROLE and settings.metrics_address is not None:
            collector = SystemCollector(
                RecordReader(self._database, settings.dead_after_seconds),
                BrokerReader(redis_url, settings.redis_prefix),
            )
            self._server = MetricsServer(settings.metrics_address, collector)
            self._server.start()

    def listen(self) -> None:
        """Hear of messages that are none of ours."""
        signals.task_unknown.connect(self._on_unknown_task, weak=False)
        signals.task_rejected.connect(self._on_rejected, weak=False)
        message_dropped.connect(self._on_dropped, weak=False)

    def forget(self) -> None:
        """In a new pool child: what the parent serves is not the child's."""
        if self._server is not None:
            self._server.forget()

    def finish(self) -> None:
        """The worker ends."""
        if self._writer is not None and self._database is not None:
            self._writer.finish()
            self._database.close()

    def _on_unknown_task(self, **_: object) -> None:
        self._tallies.add(MESSAGES_REJECTED, "unknown_task")

    def _on_rejected(self, **_: object) -> None:
        self._tallies.add(MESSAGES_REJECTED, "not_a_task")

    def _on_dropped(self, **_: object) -> None:
        self._tallies.add(MESSAGES_REJECTED, "undecodable")
