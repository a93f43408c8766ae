"""Runs as people know them: accepted, and looked at."""

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, RowMapping, func, insert, or_, select, text
from sqlalchemy.dialects.postgresql import insert as upsert

from models.tables import entries, events, run_specs, runs, threads, workers
from umbel.contracts import Principal, RunId, ThreadId, new_id
from umbel.errors import InvalidInput
from umbel.names import RunStatus, WireName

MAX_INPUT_CHARS: Final = 256 * 1024
_OWN_ID: Final = re.compile(r"[a-z]{3}_[A-Za-z0-9_-]{1,60}")
ACTIVE: Final = ("queued", "running", "waiting", "cancelling")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A request with everything that is frozen into its run."""

    principal: Principal
    input: str
    agent: str
    profile: str
    model: str
    wire: WireName
    instructions: str
    policy: str
    """Canonical JSON text of the expanded policy."""
    tools: str
    """Canonical JSON text of the offered tools."""
    workspace: str | None = None
    traceparent: str | None = None
    """The caller's place in a trace, well-formed."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The run of a request; `is_new` is False when the id was accepted before."""

    run_id: RunId
    thread_id: ThreadId
    is_new: bool
    is_queued: bool


def accept_run(
    connection: Connection, request: RunRequest, *, run_id: RunId, thread_id: ThreadId | None = None
) -> Accepted:
    """Write a request down as a run, ready for a worker unless its thread is occupied.

    Idempotent by `run_id`: the same id again gives the run that exists.

    Raises:
        InvalidInput: the text is empty, too long or not storable, or the id belongs to another
            tenant or owner.
    """
    check_input(request.input)
    check_id("run_id", run_id, "run")
    if thread_id is not None:
        check_id("thread_id", thread_id, "thr")
    # The same request sent twice at once must find itself: there is no row to lock yet.
    connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(run_id, 0))))
    known = connection.execute(
        select(runs.c.thread_id, runs.c.status, runs.c.tenant, runs.c.owner).where(
            runs.c.id == run_id
        )
    ).one_or_none()
    if known is not None:
        if (known.tenant, known.owner) != (request.principal.tenant, request.principal.user):
            raise InvalidInput(f"The run id {run_id!r} is taken; choose another one.")
        return Accepted(run_id, known.thread_id, is_new=False, is_queued=known.status == "queued")
    thread = thread_id or ThreadId(new_id("thr"))
    _ensure_thread(connection, thread, request)
    is_queued = _is_occupied(connection, thread)
    _insert_run(connection, request, run_id, thread, is_queued=is_queued)
    return Accepted(run_id, thread, is_new=True, is_queued=is_queued)


def check_id(name: str, value: str, prefix: str) -> None:
    """Refuse an id of a caller's own that is no id.

    Raises:
        InvalidInput: with the form it must have.
    """
    if not _OWN_ID.fullmatch(value) or not value.startswith(f"{prefix}_"):
        raise InvalidInput(
            f"{name} {value[:80]!r} is no id: write {prefix}_ and up to 60 letters, digits, "
            "'_' and '-'."
        )


def check_input(value: str) -> None:
    """Refuse a request text that is empty, too long or cannot be stored unchanged.

    Raises:
        InvalidInput: with the field, the fact and what to do.
    """
    if not value.strip():
        raise InvalidInput("input is empty: say what the agent should do.")
    if len(value) > MAX_INPUT_CHARS:
        raise InvalidInput(
            f"input has {len(value)} characters; the limit is {MAX_INPUT_CHARS}. "
            "Put long material into a file of the workspace."
        )
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidInput("input holds U+0000 or half a surrogate pair; remove the character.")


def _ensure_thread(connection: Connection, thread: ThreadId, request: RunRequest) -> None:
    """Make the thread, or lock it and check whose it is."""
    connection.execute(
        upsert(threads)
        .values(
            id=thread,
            tenant=request.principal.tenant,
            owner=request.principal.user,
            title=request.input[:80],
        )
        .on_conflict_do_nothing()
    )
    row = connection.execute(
        select(threads.c.tenant, threads.c.owner).where(threads.c.id == thread).with_for_update()
    ).one()
    if (row.tenant, row.owner) != (request.principal.tenant, request.principal.user):
        raise InvalidInput(f"There is no thread {thread!r}.")


def _is_occupied(connection: Connection, thread: ThreadId) -> bool:
    return bool(
        connection.execute(
            select(runs.c.id).where(runs.c.thread_id == thread, runs.c.status.in_(ACTIVE)).limit(1)
        ).first()
    )


def _insert_run(
    connection: Connection,
    request: RunRequest,
    run_id: RunId,
    thread: ThreadId,
    *,
    is_queued: bool,
) -> None:
    tenant, user = request.principal.tenant, request.principal.user
    connection.execute(
        insert(runs).values(
            id=run_id,
            tenant=tenant,
            thread_id=thread,
            owner=user,
            status="queued" if is_queued else "running",
            work="none" if is_queued else "ready",
            next_seq=2,
            accepted_at=text("clock_timestamp()"),  # the order of the thread's lock, not of begins
            ring_at=None if is_queued else text("now()"),
        )
    )
    connection.execute(
        insert(run_specs).values(
            run_id=run_id,
            tenant=tenant,
            principal=user,
            agent=request.agent,
            profile=request.profile,
            model=request.model,
            wire=request.wire,
            instructions=request.instructions,
            policy=request.policy,
            policy_sha=hashlib.sha256(request.policy.encode()).digest(),
            tools=request.tools,
            tools_sha=hashlib.sha256(request.tools.encode()).digest(),
            workspace=request.workspace,
            traceparent=request.traceparent,
        )
    )
    connection.execute(
        insert(entries).values(
            id=new_id("ent"),
            tenant=tenant,
            thread_id=thread,
            run_id=run_id,
            kind="request",
            author=user,
            text=request.input,
        )
    )
    connection.execute(
        insert(events).values(
            run_id=run_id,
            seq=1,
            kind="run.accepted",
            ref=run_id,
            data={"agent": request.agent},
            fence=0,
        )
    )


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as it is shown to people."""

    run_id: RunId
    thread_id: ThreadId
    tenant: str
    owner: str
    agent: str
    model: str
    status: RunStatus
    reason: str | None
    detail: str | None
    work: str
    step: int
    fence: int
    holder: str | None
    """The worker that holds it, as `role@host pid`, as the database sees it."""
    input: str
    answer: str | None
    open_calls: int
    calls_used: int
    workspace: str | None
    accepted_at: datetime
    settled_at: datetime | None


def find_run(connection: Connection, run_id: str, *, tenant: str | None = None) -> RunRow | None:
    """The run of an id, or of a beginning of one that fits a single run; of `tenant`, if given."""
    query = (
        RUN_QUERY.where(or_(runs.c.id == run_id, runs.c.id.startswith(run_id, autoescape=True)))
        .order_by(runs.c.id)  # the id itself comes before those that it begins
        .limit(2)
    )
    if tenant is not None:
        query = query.where(runs.c.tenant == tenant)
    rows = connection.execute(query).mappings().all()
    exact = [row for row in rows if row["id"] == run_id]
    if exact:
        return run_of(exact[0])
    return run_of(rows[0]) if len(rows) == 1 else None


RUN_QUERY: Final = (
    select(
        runs,
        run_specs.c.agent,
        run_specs.c.model,
        run_specs.c.workspace,
        entries.c.text.label("input"),
        workers.c.node.label("holder_node"),
        workers.c.pid.label("holder_pid"),
    )
    .join(run_specs, run_specs.c.run_id == runs.c.id)
    .join(entries, (entries.c.run_id == runs.c.id) & (entries.c.kind == "request"))
    .outerjoin(workers, workers.c.id == runs.c.holder)
    .prefix_with(text("/* runs.show */"))
)


def run_of(row: RowMapping) -> RunRow:
    """A row of RUN_QUERY."""
    holder = row["holder"]
    if row["holder_node"] is not None:
        holder = f"{row['holder_node']} pid {row['holder_pid']}"
    return RunRow(
        run_id=row["id"],
        thread_id=row["thread_id"],
        tenant=row["tenant"],
        owner=row["owner"],
        agent=row["agent"],
        model=row["model"],
        status=row["status"],
        reason=row["reason"],
        detail=row["detail"],
        work=row["work"],
        step=row["step"],
        fence=row["fence"],
        holder=holder,
        input=row["input"],
        answer=row["answer"],
        open_calls=row["open_calls"],
        calls_used=row["calls_used"],
        workspace=row["workspace"],
        accepted_at=row["accepted_at"],
        settled_at=row["settled_at"],
    )
