"""Serves the metrics page over HTTP from a control worker's parent process."""

import logging
from collections.abc import Mapping
from threading import Event, Thread
from typing import Final
from wsgiref.simple_server import WSGIServer

import redis
from prometheus_client import CollectorRegistry, start_http_server

from locks.ownership import connect
from models.database import Database
from models.overview import Overview, look
from tasks.metrics import SystemCollector
from umbel.names import CONTROL_QUEUE, LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE

log: Final = logging.getLogger(__name__)

CONTROL_ROLE: Final = "control"
_QUEUES: Final = (LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE, CONTROL_QUEUE)


class RecordReader:
    """Looks at the whole system through one process's pool."""

    def __init__(self, database: Database, dead_after_seconds: float) -> None:
        self._database = database
        self._dead_after_seconds = dead_after_seconds

    def __call__(self) -> Overview:
        """How the system stands; raises Unavailable."""
        return look(self._database, dead_after_seconds=self._dead_after_seconds)


class BrokerReader:
    """Looks at the broker's lists."""

    def __init__(self, redis_url: str, prefix: str) -> None:
        self._client: redis.Redis = connect(redis_url, role="metrics", max_connections=2)
        self._prefix = prefix

    def __call__(self) -> Mapping[str, int]:
        """Messages in each queue that no worker has fetched; raises RedisError."""
        with self._client.pipeline(transaction=False) as pipeline:
            for queue in _QUEUES:
                pipeline.llen(f"{{{self._prefix}}}:{queue}")
            return dict(zip(_QUEUES, pipeline.execute(), strict=True))


class MetricsServer:
    """The page at one address, on threads of its own.

    An address in use is no reason for a worker to stop: it is said once and tried again, so that
    one of several control workers always serves it.
    """

    def __init__(
        self, address: str, collector: SystemCollector, *, retry_seconds: float = 15.0
    ) -> None:
        host, _, port = address.rpartition(":")
        self._address = address
        self._host, self._port = host.strip("[]"), int(port)
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        self._retry_seconds = retry_seconds
        self._server: WSGIServer | None = None

    def start(self) -> None:
        """Serve until the process ends."""
        Thread(target=self._serve, daemon=True).start()

    def forget(self) -> None:
        """In a child that was forked while its parent serves: let go of the parent's socket.

        Else the address would stay taken for as long as a child outlives the parent.
        """
        if self._server is not None:
            self._server.socket.close()

    def _serve(self) -> None:
        is_told = False
        while True:
            try:
                self._server, _ = start_http_server(self._port, self._host, self._registry)
            except OSError as error:
                if not is_told:
                    log.warning(
                        "metrics not served; set UMBEL_METRICS_ADDRESS to another, or to off",
                        extra={"address": self._address, "cause": error.strerror or str(error)},
                    )
                    is_told = True
                Event().wait(self._retry_seconds)
                continue
            log.info("metrics served", extra={"url": f"http://{self._address}/metrics"})
            return
