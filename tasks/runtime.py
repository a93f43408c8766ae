"""The composition root: everything one worker process works with, made after fork."""

import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

import redis
from celery import Celery

from locks.live import LivePublisher
from locks.ownership import OwnershipLocks, connect
from locks.refusal_notes import RefusalNotes
from models.claiming import FRESH, Duty
from models.database import Database
from models.records import SpecCache
from models.workers import living_slots
from providers.contract import Endpoint, ModelProvider, StreamLimits
from providers.profiles import DEFAULT_BASE_URL
from providers.refusals import Refusals, RefusalStore
from providers.wires import provider_for
from tasks.claims_watch import ClaimsWatch
from tasks.drain import DrainFlag
from tasks.drain_reads import ReadInterrupter
from tasks.presence import Node
from tasks.queue_room import QueueRoom
from tasks.ringing import Ringer
from tasks.tallying import Meter
from tasks.token_rates import TokenRates
from tasks.tracing import NoTracer, Tracer, make_tracer
from tools.hooks import load_hooks
from tools.registry import ToolRegistry, load_registry
from tools.typed_check import TypedArgumentsCheck
from tools.web.client import WebAccess
from umbel.contracts import RunId, WorkerId
from umbel.errors import Misconfigured
from umbel.names import LOOP_QUEUE, SUSPECT_QUEUE, WIRES, Reason, RunStatus, WireName
from umbel.preflight import PreflightHook
from umbel.settings import Settings
from umbel.web_targets.allowing import AllowList


class Carried:
    """The runs and calls that code of this process is at: each at most once."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._lock = Lock()

    def snapshot(self) -> frozenset[str]:
        """What code of this process is at now."""
        with self._lock:
            return frozenset(self._ids)

    @contextmanager
    def enter(self, identity: str) -> Iterator[bool]:
        """True for the first to come; the others should leave."""
        with self._lock:
            is_first = identity not in self._ids
            self._ids.add(identity)
        try:
            yield is_first
        finally:
            if is_first:
                with self._lock:
                    self._ids.discard(identity)


@dataclass(frozen=True, slots=True)
class Runtime:
    """What the functions behind the Celery tasks are given."""

    worker: WorkerId
    database: Database
    specs: SpecCache
    locks: OwnershipLocks
    redis: redis.Redis
    redis_prefix: str
    registry: ToolRegistry
    providers: Mapping[WireName, ModelProvider]
    limits: StreamLimits
    ringer: Ringer
    claims: ClaimsWatch
    is_presence_lost: Callable[[], bool]
    """Others may take this process's work: stop and leave."""
    queues: tuple[str, ...] = ()
    slots: int = 1
    """Steps or calls carried at once."""
    ring_after_seconds: float = 5.0
    """After which a step that could not be claimed is tried again for the first time."""
    tool_patience_seconds: float = 30.0
    """Time a call waits, at least, for a worker that has its tool."""
    duty: Duty = FRESH
    risk: Lock = field(default_factory=Lock)
    """Held by the one step here that has cost a worker before."""
    web_access: WebAccess = field(default_factory=lambda: WebAccess(AllowList()))
    hooks: tuple[PreflightHook, ...] = ()
    draining: DrainFlag = field(default_factory=DrainFlag)
    """Set once the worker is asked to end: streams and reads are handed back."""
    reads: ReadInterrupter = field(default_factory=ReadInterrupter)
    carried: Carried = field(default_factory=Carried)
    jitter: Callable[[], float] = random.random
    rates: TokenRates = field(default_factory=TokenRates)
    meter: Meter = field(default_factory=Meter)
    tracer: Tracer = field(default_factory=NoTracer)

    def live(self, run_id: RunId, step: int, attempt: int) -> LivePublisher:
        """Where the pieces of one attempt's reply go."""
        return LivePublisher(
            self.redis, prefix=self.redis_prefix, run_id=run_id, step=step, attempt=attempt
        )

    def note_end(self, run_id: RunId, ended: tuple[RunStatus, Reason | None] | None) -> None:
        """Count and trace the end of a run that this process has committed; None: it goes on."""
        if ended is not None:
            self.meter.run_settled(*ended)
            self.tracer.run_settled(run_id)

    def close(self) -> None:
        """Close what holds connections."""
        self.tracer.finish()
        self.database.close()
        self.redis.close()


def build_runtime(
    settings: Settings,
    app: Celery,
    worker: WorkerId,
    *,
    node: Node,
    is_presence_lost: Callable[[], bool],
    draining: DrainFlag,
) -> Runtime:
    """Put a process together. Connects to nothing yet.

    Raises:
        Misconfigured: an address or a tool module is missing or wrong.
    """
    database_url, redis_url = required_urls(settings)
    queues = node.capacity.queues
    database = Database(database_url, role=node.role, pool_size=settings.pool_size)
    tracer = make_tracer(settings, database, role=node.role, instance=worker)
    registry = load_registry(settings.tools)
    client = connect(redis_url, role=node.role, max_connections=settings.step_concurrency + 50)
    return Runtime(
        worker=worker,
        database=database,
        specs=SpecCache(database),
        locks=OwnershipLocks(
            client, prefix=settings.redis_prefix, ttl_seconds=settings.dead_after_seconds
        ),
        redis=client,
        redis_prefix=settings.redis_prefix,
        registry=registry,
        web_access=WebAccess(AllowList.of(settings.web_allow)),
        hooks=(TypedArgumentsCheck(registry), *load_hooks(settings.preflight)),
        providers=model_providers(settings, RefusalNotes(client, prefix=settings.redis_prefix)),
        limits=StreamLimits(
            silence_seconds=settings.stream_silence_seconds,
            first_event_seconds=settings.stream_first_event_seconds,
            progress_seconds=settings.stream_progress_seconds,
        ),
        ringer=Ringer(app, queue_room(settings, database, client), tracer.traceparent),
        claims=ClaimsWatch(database, settings.beat_seconds),
        is_presence_lost=is_presence_lost,
        draining=draining,
        queues=queues,
        slots=node.capacity.slots,
        ring_after_seconds=settings.ring_after_seconds,
        tool_patience_seconds=settings.tool_patience_seconds,
        duty=Duty(
            takes_fresh=LOOP_QUEUE in queues,
            takes_suspects=SUSPECT_QUEUE in queues,
            dead_after_seconds=settings.dead_after_seconds,
        ),
        meter=Meter(settings_of=settings.model_settings),
        tracer=tracer,
    )


def queue_room(settings: Settings, database: Database, client: redis.Redis) -> QueueRoom:
    """How full the broker's lists are, for whoever rings."""
    return QueueRoom(
        client,
        settings.redis_prefix,
        lambda: living_slots(database, dead_after_seconds=settings.dead_after_seconds),
    )


def required_urls(settings: Settings) -> tuple[str, str]:
    """The database and Redis URLs.

    Raises:
        Misconfigured: one of them is not set.
    """
    urls: Mapping[str, str | None] = {
        "UMBEL_DATABASE_URL": settings.database_url,
        "UMBEL_REDIS_URL": settings.redis_url,
    }
    missing = [name for name, value in urls.items() if not value]
    if settings.database_url is None or settings.redis_url is None:
        raise Misconfigured(
            f"{' and '.join(missing)} must be set for a worker; `umbel run` sets them by itself."
        )
    return settings.database_url, settings.redis_url


def model_endpoint(settings: Settings) -> Endpoint:
    """Where models are asked."""
    key = settings.api_key.get_secret_value() if settings.api_key else ""
    return Endpoint(base_url=settings.model_base_url or DEFAULT_BASE_URL, api_key=key)


def model_providers(
    settings: Settings, notes: RefusalStore | None = None
) -> dict[WireName, ModelProvider]:
    """An adapter per wire, all over the endpoint of the settings."""
    endpoint, refusals = model_endpoint(settings), Refusals(notes)
    return {wire: provider_for(endpoint, wire=wire, refusals=refusals) for wire in WIRES}


_current: dict[int, Runtime] = {}


def install_runtime(runtime: Runtime) -> None:
    """Make `runtime` the one of this process; called once, before the first task."""
    _current.clear()  # a forked child must not see its parent's
    _current[os.getpid()] = runtime


def runtime() -> Runtime:
    """The runtime of this process."""
    return _current[os.getpid()]
