"""Umbel for a program that may reach its database: enqueue a run, look at it, wait for it.

    from umbel.service import Service

    with Service() as umbel:
        run_id = umbel.enqueue("Compare plan-a.md with plan-b.md.", workspace="/srv/plans")
        run = umbel.wait(run_id, timeout_seconds=600)
        print(run.status, run.answer)

Settings come from `UMBEL_*` and `umbel.toml`; workers must be running for a run to go on. Needs the
`server` extra: the record is written by this process, and no message carries more than ids.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from umbel.contracts import Principal, RunId, ThreadId
from umbel.errors import Misconfigured, NotFound
from umbel.names import SETTLED_STATUSES
from umbel.server_path import bind_server_packages
from umbel.settings import Settings, load_settings

if TYPE_CHECKING:
    from models.runs import Accepted, RunRow

_LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request and how it is to be carried out; the fields are those of `Service.enqueue`."""

    request: str
    agent: str = "default"
    model: str | None = None
    """The model to ask, instead of the agent's."""
    workspace: str | None = None
    run_id: str | None = None
    thread_id: str | None = None
    makes_thread: bool = True
    """A `thread_id` that stands for no thread yet makes one; False: it is refused."""
    policy: Mapping[str, object] = field(default_factory=dict[str, object])
    traceparent: str | None = None


class Service:
    """A small pool of connections to the record, and the doorbell. Close it, or use `with`."""

    def __init__(self, settings: Settings | None = None) -> None:
        """Raises Misconfigured when an address or a tool module is missing or wrong."""
        bind_server_packages()
        from locks.ownership import connect
        from models.database import Database
        from tasks.app import make_app
        from tasks.ringing import Ringer
        from tasks.runtime import queue_room, required_urls
        from tools.registry import load_registry

        self._settings = settings or load_settings()
        database_url, redis_url = required_urls(self._settings)
        self._database = Database(database_url, role="service", pool_size=2)
        self._registry = load_registry(self._settings.tools)
        client = connect(redis_url, role="service", max_connections=2)
        room = queue_room(self._settings, self._database, client)
        self._ringer = Ringer(make_app(self._settings), room)

    def enqueue(  # noqa: PLR0913 - one keyword for each thing a caller may say
        self,
        request: str,
        *,
        agent: str = "default",
        workspace: str | None = None,
        run_id: str | None = None,
        thread_id: str | None = None,
        policy: Mapping[str, object] | None = None,
        traceparent: str | None = None,
    ) -> RunId:
        """Accept a request; it is durable when this returns.

        Args:
            request: what the agent should do, verbatim.
            agent: a table `[agents.NAME]` of the settings.
            workspace: the folder the run's file tools may touch, as the workers see it.
            run_id: chosen by the caller (`run_…`), it makes the call safe to repeat: the same
                request again is the same run.
            thread_id: an earlier run's thread, where the run waits its turn, or an id of your own
                (`thr_…`) for a new one.
            policy: values that win over the agent's.
            traceparent: a W3C Trace Context; the run's spans become its children. None: that of
                the span this program has open, if it uses OpenTelemetry.

        Raises:
            InvalidInput: the request cannot be stored as it is.
            IdReused: the run id stands for another request; the message says what differs.
            NotFound: the thread is somebody else's.
            Misconfigured: the agent does not exist, or no model is set.
            Unavailable: PostgreSQL does not answer; repeat with the same `run_id`.
        """
        wanted = Wanted(
            request,
            agent=agent,
            workspace=workspace,
            run_id=run_id,
            thread_id=thread_id,
            policy=policy or {},
            traceparent=traceparent,
        )
        return self.accept(wanted).run_id

    def accept(self, wanted: Wanted) -> "Accepted":
        """What `enqueue` does, for callers that want to know more of what came of it."""
        from tasks.acceptance import NewRequest, accept, configured_agent
        from tasks.traceparent import current_traceparent

        spec = configured_agent(self._settings, wanted.agent, **wanted.policy)
        model = wanted.model or spec.model or self._settings.model
        if model is None:
            raise Misconfigured(f"Agent {wanted.agent!r} names no model; set UMBEL_MODEL.")
        new = NewRequest(
            principal=Principal(tenant=self._settings.tenant, user=self._settings.user),
            input=wanted.request,
            model=model,
            workspace=wanted.workspace,
            run_id=RunId(wanted.run_id) if wanted.run_id else None,
            thread_id=ThreadId(wanted.thread_id) if wanted.thread_id else None,
            traceparent=wanted.traceparent or current_traceparent(),
            names_model=wanted.model is not None,
            own_policy=tuple(wanted.policy),
            makes_thread=wanted.makes_thread,
        )
        accepted = accept(self._database, self._registry, replace(spec, model=model), new)
        if not accepted.is_queued:
            self._ringer.ring_step(accepted.run_id, 1)
        return accepted

    def get(self, run_id: str) -> "RunRow":
        """The run as it stands.

        Raises:
            NotFound: there is no such run of this tenant.
        """
        from models.runs import find_run

        with self._database.begin() as connection:
            run = find_run(connection, run_id)
        if run is None or run.tenant != self._settings.tenant:
            raise NotFound(f"There is no run {run_id!r}.")
        return run

    def wait(self, run_id: str, *, timeout_seconds: float) -> "RunRow":
        """The run once it is settled, or as it stands when the time is over.

        Raises:
            NotFound: there is no such run of this tenant.
        """
        end = time.monotonic() + timeout_seconds
        while True:
            run = self.get(run_id)
            if run.status in SETTLED_STATUSES or time.monotonic() >= end:
                return run
            Event().wait(_LOOK_SECONDS)

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
