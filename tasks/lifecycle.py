"""Start and end of worker processes: identity, heartbeat, pools made after fork, draining.

gevent and threads: one process, one row in `workers`, one runtime, made before the pool starts.
prefork: the parent holds the node lock and beats for all; each child has a row and a runtime of its
own, made in the child.
"""

import gc
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from billiard.exceptions import WorkerLostError
from celery import Celery, signals

from locks.wake_ups import WakeUpListener
from models.database import Database
from models.workers import Capacity, drop_predecessors, register, remove
from tasks.drain import DrainFlag
from tasks.metrics_consumer import ConsumerMetrics
from tasks.native import is_gevent
from tasks.node_lock import NodeLock
from tasks.persisting import persist
from tasks.presence import Node, Presence, new_worker_id, role_of
from tasks.presence_log import PresenceLog
from tasks.reconciling import Reconciler
from tasks.record_watch import RecordWatch
from tasks.runtime import Runtime, build_runtime, install_runtime, required_urls, runtime
from tasks.tally_writer import TallyWriter
from tasks.tracing import check_tracing
from umbel.errors import Misconfigured, UmbelError
from umbel.names import LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE
from umbel.settings import Settings

log: Final = logging.getLogger(__name__)

PREFORK_POOLS: Final = ("prefork", "processes")
_DRAIN_SECONDS: Final = 5.0
"""For work that was begun without a message; the pool waits for everything else."""


class WorkerLifecycle:
    """What one worker is, from `worker_init` to `worker_shutdown`."""

    def __init__(self, app: Celery, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._draining = DrainFlag()  # before any fork
        self._role = "worker"
        self._pool = "prefork"
        self._lock: NodeLock | None = None
        self._node: Node | None = None
        self._presence: Presence | None = None
        self._presence_log: PresenceLog | None = None
        self._writer: TallyWriter | None = None
        self._watch: RecordWatch | None = None
        self.metrics = ConsumerMetrics(settings)

    def start_worker(self, *, hostname: str, pool: str, capacity: Capacity) -> None:
        """Before the pool starts: prove that no earlier life of this node is alive."""
        database_url, _ = required_urls(self._settings)
        self._role, self._pool = hostname.partition("@")[0], pool
        self._check_patching()
        check_tracing(self._settings)
        self._lock = NodeLock(hostname, database_url)
        self._node = Node(self._lock.acquire(), self._role, pool, capacity)
        self._presence = Presence(
            database_url,
            self._node,
            beat_seconds=self._settings.beat_seconds,
            dead_after_seconds=self._settings.dead_after_seconds,
        )
        if self._lock.is_exclusive:
            self._forget_predecessors(database_url)
        if pool in PREFORK_POOLS:
            self._app.conf.worker_disable_prefetch = True
        else:
            self._app.conf.worker_disable_prefetch = pool == "threads"
            self._start_process()
            self._beat(self._presence)
            runtime().providers["chat"].prepare()

    def start_beating(self) -> None:
        """The pool runs: from now on the parent beats for its children."""
        if self._pool in PREFORK_POOLS and self._presence is not None:
            self._beat(self._presence)
        self.metrics.start(role_of(self._role))

    def start_child(self) -> None:
        """In a new pool child: a row and a runtime of its own."""
        self.metrics.forget()
        self._start_process()

    def bury_child(self) -> None:
        """A pool child died with a task: whatever it held is free with the next sweep."""
        if self._presence is not None:
            self._presence.look_now()

    def drain(self) -> None:
        """The worker was asked to end: all its processes hand their streams and reads back."""
        self._draining.set()

    def end_worker(self) -> None:
        """The worker ends: say goodbye and leave no lock file."""
        if self._presence is not None:
            self._presence.stop()
        if self._presence_log is not None:
            self._presence_log.stop()
        self.end_process()
        self.metrics.finish()
        if self._lock is not None:
            self._lock.release()
        # The interpreter collects garbage several times on its way out; of a heap that is about to
        # vanish that is half of the time a worker takes to stop.
        gc.freeze()

    def end_process(self) -> None:
        """Say goodbye, so that whatever this process still holds is free at once."""
        try:
            ending = runtime()
        except KeyError:
            return
        if self._watch is not None:
            self._watch.finish(_DRAIN_SECONDS)
        remove(ending.database, ending.worker)
        if self._writer is not None:
            self._writer.finish()
        ending.close()

    def _beat(self, presence: Presence) -> None:
        presence.start()
        self._presence_log = PresenceLog(presence)
        self._presence_log.start()

    def _start_process(self) -> None:
        if self._node is None:
            raise Misconfigured(
                "worker_init did not run; start workers with `celery -A umbel.server`."
            )
        worker = new_worker_id()
        made = build_runtime(
            self._settings,
            self._app,
            worker,
            node=self._node,
            is_presence_lost=self._is_lost,
            draining=self._draining,
        )
        install_runtime(made)
        self._register(made)
        made.reads.start(kills=self._pool in PREFORK_POOLS)
        self._watch = RecordWatch(made)
        self._watch.start()
        if {LOOP_QUEUE, SUSPECT_QUEUE} & set(made.queues):
            made.claims.listen(WakeUpListener(made.redis, prefix=made.redis_prefix))
        Reconciler(made).start(self._settings.beat_seconds)
        self._writer = TallyWriter(made.meter.tallies, made.database)
        self._writer.start(self._settings.beat_seconds)

    def _register(self, made: Runtime) -> None:
        assert self._node is not None  # noqa: S101 - checked by the caller
        node = self._node
        persist(
            lambda: register(
                made.database,
                made.worker,
                node=node.identity,
                role=node.role,
                pool=node.pool,
                pid=os.getpid(),
                capacity=node.capacity,
                tools=made.registry.digests() if TOOLS_QUEUE in made.queues else (),
            )
        )

    def _is_lost(self) -> bool:
        """A pool child cannot see its parent's clock; the fence protects what it writes."""
        return (
            self._pool not in PREFORK_POOLS
            and self._presence is not None
            and self._presence.is_lost
        )

    def _forget_predecessors(self, database_url: str) -> None:
        assert self._node is not None  # noqa: S101 - set before
        identity = self._node.identity
        database = Database(database_url, role=self._role, pool_size=1)
        try:
            persist(lambda: drop_predecessors(database, identity))
        finally:
            database.close()  # nothing may be open when the pool forks

    def _check_patching(self) -> None:
        if is_gevent() != (self._pool == "gevent"):
            raise Misconfigured(
                f"Pool {self._pool!r} with gevent patching {'on' if is_gevent() else 'off'}: "
                "choose the pool on the command line (`-P gevent`), not in configuration."
            )


def connect_signals(app: Celery, settings: Settings) -> WorkerLifecycle:
    """Tie the lifecycle to Celery's signals."""
    lifecycle = WorkerLifecycle(app, settings)

    def on_worker_init(sender: Any, **_: object) -> None:
        pool = _pool_name(sender.pool_cls)
        queues = tuple(sender.app.amqp.queues.consume_from)
        slots = 1 if pool in PREFORK_POOLS else int(sender.concurrency)
        start = partial(lifecycle.start_worker, hostname=sender.hostname, pool=pool)
        _or_exit(lambda: start(capacity=Capacity(slots, queues)))

    def on_task_failure(exception: object = None, **_: object) -> None:
        # Sent by the parent for a child that is gone; by a child for whatever its tasks raise.
        if isinstance(exception, WorkerLostError):
            lifecycle.bury_child()

    connections: tuple[tuple[Any, Callable[..., None]], ...] = (
        (signals.worker_init, on_worker_init),
        (signals.worker_ready, lambda **_: lifecycle.start_beating()),
        (signals.worker_process_init, lambda **_: _or_exit(lifecycle.start_child)),
        (signals.task_failure, on_task_failure),
        (signals.worker_shutting_down, lambda **_: lifecycle.drain()),
        (signals.worker_shutdown, lambda **_: lifecycle.end_worker()),
        (signals.worker_process_shutdown, lambda **_: lifecycle.end_process()),
    )
    for signal, receiver in connections:
        signal.connect(receiver, weak=False)
    lifecycle.metrics.listen()
    return lifecycle


def _or_exit(start: Callable[[], None]) -> None:
    """Run a start-up step; Celery would only log its error and take work without a runtime."""
    try:
        start()
    except UmbelError as error:
        log.critical("worker could not start", extra={"cause": str(error)})
        raise SystemExit(2) from error


def _pool_name(pool: Any) -> str:
    """`gevent`, `threads`, `prefork` or `solo`, whatever form Celery gives it in."""
    text = pool if isinstance(pool, str) else pool.__module__
    name = text.partition(":")[0].rpartition(".")[2] or text
    return {"thread": "threads"}.get(name, name)  # the module is named in the singular
