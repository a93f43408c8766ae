"""Umbel for a program that may reach its database: enqueue a run, look at it, correct or stop it.

    from umbel.service import Service

    with Service() as umbel:
        run_id = umbel.enqueue("Compare plan-a.md with plan-b.md.", workspace="/srv/plans")
        run = umbel.wait(run_id, timeout_seconds=600)
        print(run.status, run.answer)

Settings come from `UMBEL_*` and `umbel.toml`; workers must be running for a run to go on. Needs the
`server` extra: the record is written by this process, and no message carries more than ids.
"""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from umbel.contracts import CallId, Principal, RunId, ThreadId
from umbel.errors import InvalidInput, NotFound
from umbel.names import SETTLED_STATUSES, OnBusy, SteerMode, Verification
from umbel.server_path import bind_server_packages
from umbel.settings import Settings, load_settings
from umbel.source_name import GivenSource
from umbel.wanted import Wanted

if TYPE_CHECKING:
    from models.follow_ups import FollowedUp, HandedOver
    from models.runs import Accepted, RunRow
    from tasks.owner_verbs import CallDecided, ReceiptVerified, RunResumed, RunSteered, RunStopped
    from tasks.source_notices import SourceNoted

_LOOK_SECONDS: Final = 0.2


class Service:
    """A small pool of connections to the record, and the doorbell. Close it, or use `with`."""

    def __init__(self, settings: Settings | None = None) -> None:
        """Raises Misconfigured when an address or a tool module is missing or wrong."""
        bind_server_packages()
        from locks.ownership import connect
        from locks.wake_ups import WakeUps
        from models.database import Database
        from tasks.app import make_app
        from tasks.owner_verbs import OwnerVerbs
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
        self._principal = Principal(tenant=self._settings.tenant, user=self._settings.user)
        self._wake_ups = WakeUps(client, prefix=self._settings.redis_prefix)
        self._verbs = OwnerVerbs(self._database, self._ringer, self._wake_ups, self._principal)

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
        sources: Sequence[GivenSource] = (),
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
            sources: texts given beside the request, each with its name and author. `note_source`
                with the new text, or as deleted, changes what the run is shown.

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
            sources=sources,
        )
        return self.accept(wanted).run_id

    def accept(self, wanted: Wanted) -> "Accepted":
        """What `enqueue` does, for callers that want to know more of what came of it."""
        from tasks.acceptance import accept

        spec, new = wanted.against(self._settings, self._principal)
        accepted = accept(self._database, self._registry, spec, new)
        if not accepted.is_queued:
            self._ringer.ring_step(accepted.run_id, 1)
        return accepted

    def follow_up(
        self,
        run_id: str,
        request: str,
        *,
        on_busy: OnBusy = "enqueue",
        new_run_id: str | None = None,
    ) -> "FollowedUp | HandedOver":
        """Ask for more in the thread of a run, of the same agent, model and workspace.

        The next run knows what the thread's runs before it have said, done and found.

        Args:
            run_id: any run of the thread.
            request: what the agent should do now, verbatim.
            on_busy: while a run is at work there, `enqueue` lets this wait its turn, `reject`
                refuses it, `interrupt` stops that run first, `steer` gives it to that run as a
                correction.
            new_run_id: chosen by the caller (`run_…`), it makes the call safe to repeat.

        Raises:
            Conflict: the thread is busy and `on_busy` is `reject`.
            NotFound: there is no such run of this tenant.
            InvalidInput, IdReused, Misconfigured, Unavailable: as `enqueue`.
        """
        from tasks.acceptance import accept_follow_up

        run = self.get(run_id)
        wanted = Wanted(
            request,
            agent=run.agent,
            model=run.model,
            workspace=run.workspace,
            run_id=new_run_id,
            thread_id=run.thread_id,
        )
        spec, new = wanted.against(self._settings, self._principal)
        found = accept_follow_up(
            self._database, self._registry, spec, new, thread_id=run.thread_id, on_busy=on_busy
        )
        self._verbs.followed_up(found)
        return found

    def steer(
        self, run_id: str, text: str, *, mode: SteerMode = "redirect", key: str | None = None
    ) -> "RunSteered":
        """Correct a run while it works; its next request holds the text.

        Args:
            run_id: of a run that is queued, at work, waiting or paused.
            text: up to 4,000 characters.
            mode: `redirect` gives up what has not started; `append` lets the step finish.
            key: the same one again is the same correction.

        Raises:
            Conflict: the run hears nothing more.
            NotFound, NotPermitted: it is not yours, or not yours to do this to.
            InvalidInput: an argument is none.
            Unavailable: PostgreSQL does not answer; repeat with the same `key`.
        """
        return self._verbs.steer(self.get(run_id).run_id, text, mode, key=key)

    def stop(self, run_id: str, *, key: str | None = None) -> "RunStopped":
        """Let nothing of a run start any more; what is started still ends and is recorded.

        Raises:
            Conflict: it has ended by itself; else as `steer`.
        """
        return self._verbs.stop(self.get(run_id).run_id, key=key)

    def resume(
        self,
        run_id: str,
        *,
        limits: Mapping[str, int | None] | None = None,
        key: str | None = None,
    ) -> "RunResumed":
        """Let a paused, failed or cancelled run go on where it stood.

        Args:
            run_id: of a run that settled without an answer.
            limits: values of `loop.policy.LIMITS` that win over the run's; None: no limit.
            key: the same one again is the same resume.

        Raises:
            Conflict: it does not stand so; the message says what to do first. Else as `steer`.
        """
        return self._verbs.resume(self.get(run_id).run_id, limits=limits, key=key)

    def verify(self, call_id: str, outcome: Verification, found: str) -> "ReceiptVerified":
        """Say how a change ended whose outcome nobody knew; sends nothing, resumes nothing.

        Args:
            call_id: of the change.
            outcome: what was found out.
            found: how, in 10 to 2,000 characters; the model is told.

        Raises:
            Conflict: its outcome is not unknown; else as `steer`.
        """
        return self._verbs.verify(CallId(call_id), outcome, found)

    def approve(self, call_id: str, sha256: str) -> "CallDecided":
        """Let a change start that waits for your approval, once, within an hour.

        Args:
            call_id: of the change.
            sha256: of the bytes that you were shown, in hexadecimal.

        Raises:
            Conflict: other bytes, decided before, or its run has moved on.
            NotFound: it is not yours to approve.
            InvalidInput: the hash is none.
            Unavailable: PostgreSQL does not answer; repeat it.
        """
        return self._verbs.approve(CallId(call_id), _hash(sha256))

    def deny(self, call_id: str, sha256: str, words: str = "") -> "CallDecided":
        """Let a change not be done that waits for your approval; the model is told the words.

        Raises:
            Conflict, NotFound, InvalidInput, Unavailable: as `approve`.
        """
        return self._verbs.deny(CallId(call_id), _hash(sha256), words)

    def share(self, thread_id: str, collaborators: Collection[str]) -> None:
        """Let these users correct the runs of a thread; with none it is private again.

        What a run changes after a collaborator's correction needs the owner's approval.

        Raises:
            NotFound: there is no such thread of this user.
        """
        from models.sharing import share_thread

        share_thread(self._database, ThreadId(thread_id), self._principal, collaborators)

    def note_source(
        self,
        source: str,
        *,
        revision: str | None = None,
        is_deleted: bool = False,
        reason: str = "",
        text: str | None = None,
    ) -> "SourceNoted":
        """Say that something outside has changed: runs that rest on it read it again.

        Their results are read again before they ask the model next, and what they have not
        committed yet is decided anew; what waits to change something is not started. Safe to
        repeat.

        Args:
            source: `kind:id`, as the tools name it, such as `file:/srv/plans/a.md`.
            revision: which it has now. Whole numbers have an order: older ones are ignored.
            is_deleted: it is gone; its results become gaps that the model is told of.
            reason: said beside such a gap.
            text: what it says now, for runs that were given its text with their request.

        Raises:
            InvalidInput: the source is none, or a text cannot be stored.
            Unavailable: PostgreSQL does not answer; repeat it.
        """
        from models.sources import Notice
        from tasks.source_notices import note_source

        notice = Notice(source, revision, is_deleted, reason, text)
        ring, tenant = self._ringer.ring_step, self._settings.tenant
        return note_source(self._database, self._wake_ups, ring, tenant, notice)

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


def _hash(sha256: str) -> bytes:
    if not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise InvalidInput(f"{sha256[:80]!r} is no SHA-256: it has 64 hexadecimal digits.")
    return bytes.fromhex(sha256)
