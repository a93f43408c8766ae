"""The broker as Celery uses it: a message's way through, who listens, and beat."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from celery import Celery
from kombu import Connection, Exchange, Queue
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from models.diagnosis import connected_beats, known_workers, looking
from tasks.app import celery_configuration
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding, ok, problem, warning, worst
from umbel.cli.worker_commands import shown_command
from umbel.names import CONTROL_QUEUE, LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE
from umbel.redis_url import broker_url

_ANSWER_SECONDS: Final = 1.0
_PATIENT_SECONDS: Final = 4.0
_TRIP_SECONDS: Final = 4.0
_SLOW_MS: Final = 500.0
_CELERY: Final = "celery -A umbel.server"
_BEAT: Final = f"{_CELERY} beat --pidfile="
_BEATS: Final = 2
_BEAT_NAMES: Final = ("celerybeat", "beat")
"""How the node names of beats begin: Celery's own, and one that may be given with `-n`."""

Replies = Sequence[Mapping[str, Any]]


def look_at_broker(context: Context) -> Finding:
    """One message through a queue of our own, which is removed again."""
    try:
        with doctor_app(context).connection_for_write() as connection:
            elapsed_ms = _round_trip(connection) * 1000
    except (OperationalError, RedisError, OSError) as error:
        found = f"a message did not come through: {type(error).__name__}: {error}"
        return problem("broker", found, _remedy_of(error, context)).blocking()
    found = f"a message came through in {elapsed_ms:.1f} ms"
    if elapsed_ms > _SLOW_MS:
        remedy = "Look for slow commands (`redis-cli SLOWLOG GET`) and for load on that machine."
        return warning("broker", found, remedy, round_trip_ms=round(elapsed_ms, 2))
    return ok("broker", found, round_trip_ms=round(elapsed_ms, 2))


def look_at_queues(context: Context) -> Finding:
    """Whether every queue has a worker that says it consumes it."""
    app = doctor_app(context)
    consumers = _consumers(app, _ANSWER_SECONDS)
    if missing := [queue for queue in _STARTED_BY if queue not in consumers]:
        consumers = _consumers(app, _PATIENT_SECONDS)
        missing = [queue for queue in _STARTED_BY if queue not in consumers]
    concerns = _unheard(missing, context) if missing else []
    found = ", ".join(
        f"{queue} by {len(consumers[queue])}" for queue in _STARTED_BY if queue in consumers
    )
    return worst(
        "queues",
        f"consumed: {found or 'none'}",
        concerns,
        consumers={queue: sorted(nodes) for queue, nodes in consumers.items()},
        unconsumed=missing,
    )


def look_at_beat(context: Context) -> Finding:
    """Beats that answer; one whose ticks stall stays silent."""
    app = doctor_app(context)
    names = _answering_beats(app, _ANSWER_SECONDS)
    if len(names) < _BEATS:  # a busy machine answers late
        names = _answering_beats(app, _PATIENT_SECONDS)
    facts = {"beats": sorted(names)}
    if len(names) >= _BEATS:
        return ok("beat", f"{len(names)} beats answer", **facts)
    if names:
        remedy = f"Start a second one, on another machine if you can: `{_BEAT}`."
        return warning("beat", "one beat answers, and nobody would replace it", remedy, **facts)
    connected = _connected_beats(context)
    if connected:
        found = f"none answers; {connected} connected to PostgreSQL, stalled or without Redis"
        remedy = f"Look at beat's log and restart it: `{_BEAT}`."
        return problem("beat", found, remedy, **facts)
    found = "none answers: nothing is rung again, taken over or resumed by time"
    return problem("beat", found, f"Start `{_BEAT}`, or `umbel up`.", **facts)


def doctor_app(context: Context) -> Celery:
    """An application with the workers' transport options that gives up sooner."""
    app = Celery("umbel-doctor", broker=broker_url(context.redis_url), set_as_current=False)
    app.conf.update(celery_configuration(context.settings))
    app.conf.broker_transport_options = {
        **app.conf.broker_transport_options,
        "socket_timeout": _TRIP_SECONDS,
        "socket_connect_timeout": 2,
        "max_connections": 10,
    }
    return app


_STARTED_BY: Final[Mapping[str, str]] = {
    LOOP_QUEUE: "step",
    TOOLS_QUEUE: "tool",
    CONTROL_QUEUE: "control",
    SUSPECT_QUEUE: "control",
}
"""The command that starts a worker of each queue."""

_WRITE_REMEDIES: Final = (
    (
        "NOREPLICAS",
        "Redis writes only with enough replicas: bring them back, or lower its "
        "`min-replicas-to-write`.",
    ),
    ("READONLY", "This Redis is a read-only replica: set UMBEL_REDIS_URL to its primary."),
    ("MISCONF", "Redis cannot save to disk and refuses writes: free its disk, or see its log."),
    ("OOM", "Redis has no memory left: raise `maxmemory`, or see what fills it."),
)


def _remedy_of(error: Exception, context: Context) -> str:
    """What to do about a Redis that answers and takes no message."""
    for sign, remedy in _WRITE_REMEDIES:
        if sign in f"{type(error).__name__} {error}" or sign in f"{error.__cause__}":
            return remedy
    return (
        "Let the user of UMBEL_REDIS_URL read, write, publish and subscribe to "
        f"{{{context.settings.redis_prefix}}}:*, and see the part `redis`."
    )


def _round_trip(connection: Connection) -> float:
    """Seconds from publishing a message to having it back."""
    connection.ensure_connection(max_retries=1, timeout=int(_TRIP_SECONDS))
    name = f"umbel.doctor.{uuid4().hex}"
    exchange = Exchange(name, type="direct", durable=False, auto_delete=True)
    queue = Queue(name, exchange, routing_key=name, durable=False, auto_delete=True)
    with connection.channel() as channel:
        bound = queue.bind(channel)
        bound.declare()
        try:
            began = time.monotonic()
            connection.Producer(channel).publish(
                {"sent_by": "umbel doctor"}, exchange=exchange, routing_key=name, serializer="json"
            )
            while bound.get(no_ack=True) is None:
                if time.monotonic() - began > _TRIP_SECONDS:
                    raise TimeoutError("it was published and did not come back")
            return time.monotonic() - began
        finally:
            bound.delete()


def _consumers(app: Celery, seconds: float) -> dict[str, set[str]]:
    """The nodes that consume each queue; only those that answered in time."""
    consumers: dict[str, set[str]] = {}
    for node, queues in _answers(app, "active_queues", seconds):
        for queue in queues:
            consumers.setdefault(str(queue["name"]), set()).add(node)
    return consumers


def _answering_beats(app: Celery, seconds: float) -> list[str]:
    """Node names of beats; two on one machine may have the same."""
    return [
        node
        for node, _ in _answers(app, "ping", seconds)
        if node.partition("@")[0].startswith(_BEAT_NAMES)
    ]


def _answers(app: Celery, command: str, seconds: float) -> Iterable[tuple[str, Any]]:
    """Every answer to a broadcast; `inspect` would merge nodes of one name."""
    replies: Replies = app.control.broadcast(command, reply=True, timeout=seconds) or []
    for reply in replies:
        yield from reply.items()


def _unheard(queues: Sequence[str], context: Context) -> list[Finding]:
    """Queues nobody answered for, those apart whose worker lives by PostgreSQL."""
    roles = _living_roles(context)
    quiet = [queue for queue in queues if _STARTED_BY[queue] in roles]
    absent = [queue for queue in queues if queue not in quiet]
    concerns: list[Finding] = []
    if absent:
        names = dict.fromkeys(_STARTED_BY[queue] for queue in absent)
        commands = "; ".join(f"`{shown_command(name, context.settings)}`" for name in names)
        remedy = f"Start `umbel up`, or: {commands}."
        concerns.append(problem("queues", f"nobody consumes {', '.join(absent)}", remedy))
    if quiet:
        found = f"a worker lives and does not answer over Redis: {', '.join(quiet)}"
        remedy = "Look at its log; if it stays so, restart it."
        concerns.append(warning("queues", found, remedy))
    return concerns


def _living_roles(context: Context) -> set[str]:
    """Roles with a process that PostgreSQL heard of lately."""
    if not context.usable.get("migrations"):
        return set()
    with looking(context.database_url) as connection:
        return {
            worker.role
            for worker in known_workers(connection)
            if context.is_fresh(worker.silent_seconds)
        }


def _connected_beats(context: Context) -> int:
    if not context.usable.get("database"):
        return 0
    with looking(context.database_url) as connection:
        return connected_beats(connection)
