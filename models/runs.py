"""Runs as people know them: accepted, and looked at."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    case,
    exists,
    func,
    insert,
    literal,
    literal_column,
    null,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import insert as upsert

from loop.budget import USUAL_OUTPUT_RESERVE, USUAL_WINDOW
from models.given import check_given, give_sources
from models.hot_resources import WAITS_FOR
from models.input_checks import check_id, check_input
from models.same_request import refuse_other_request
from models.tables import entries, events, evidence_sources, run_specs, runs, threads, workers
from umbel.contracts import Principal, RunId, ThreadId, new_id
from umbel.errors import IdReused, NotFound
from umbel.names import RunStatus, WireName
from umbel.source_name import GivenSource

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
    window_tokens: int = USUAL_WINDOW
    """What the model takes and gives in one call."""
    reserve_tokens: int = USUAL_OUTPUT_RESERVE
    """Part of it that is kept for the answer."""
    takes_pictures: bool = False
    """Whether the model does."""
    workspace: str | None = None
    traceparent: str | None = None
    """The caller's place in a trace, well-formed."""
    names_model: bool = False
    """The caller said which model; otherwise it is the agent's, or the deployment's."""
    own_policy: tuple[str, ...] = ()
    """Names of policy values that the caller gave."""
    sources: tuple[GivenSource, ...] = ()
    """Texts that are given beside the request."""
    makes_thread: bool = True
    """A thread id that stands for no thread yet makes one of that id."""


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

    Idempotent by `run_id`: the same request again gives the run that exists.

    Raises:
        InvalidInput: the text is empty, too long or not storable.
        IdReused: the id belongs to another tenant or owner, or came with another request.
        NotFound: the thread is somebody else's, or there is none and the request makes none.
    """
    check_input(request.input)
    check_given(request.sources)
    check_id("run_id", run_id, "run")
    if thread_id is not None:
        check_id("thread_id", thread_id, "thr")
    lock_id(connection, run_id)
    known = connection.execute(
        select(runs.c.thread_id, runs.c.status, runs.c.tenant, runs.c.owner).where(
            runs.c.id == run_id
        )
    ).one_or_none()
    if known is not None:
        if (known.tenant, known.owner) != (request.principal.tenant, request.principal.user):
            raise IdReused(f"The run id {run_id!r} is taken; choose another one.")
        refuse_other_request(connection, request, run_id, thread_id)
        return Accepted(run_id, known.thread_id, is_new=False, is_queued=known.status == "queued")
    thread = thread_id or ThreadId(new_id("thr"))
    must_approve = lock_thread(connection, thread, request)
    is_queued = active_run(connection, thread) is not None
    columns = {"owner_must_approve": must_approve, **_place(is_queued=is_queued)}
    columns["stale_step"] = first_look(thread)
    _insert_run(connection, request, run_id, thread, columns)
    give_sources(connection, run_id, request.sources)
    return Accepted(run_id, thread, is_new=True, is_queued=is_queued)


def lock_id(connection: Connection, run_id: RunId) -> None:
    """Let the same request, sent twice at once, find itself: there is no row to lock yet."""
    connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(run_id, 0))))


def lock_thread(connection: Connection, thread: ThreadId, request: RunRequest) -> bool:
    """Make the thread, or lock it; whether its owner must approve what its runs change.

    Raises:
        NotFound: it is somebody else's, or there is none and the request makes none.
    """
    if request.makes_thread:
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
        select(threads.c.tenant, threads.c.owner, threads.c.owner_must_approve)
        .where(threads.c.id == thread)
        .with_for_update()
    ).one_or_none()
    whose = (request.principal.tenant, request.principal.user)
    if row is None or (row.tenant, row.owner) != whose:
        raise NotFound(f"There is no thread {thread!r}.")
    return bool(row.owner_must_approve)


def first_look(thread: ThreadId) -> ColumnElement[int | None]:
    """`stale_step` of a new run: 1 if results of its thread rest on what may have changed since."""
    rests = exists().where(evidence_sources.c.thread_id == thread)
    return case((rests, literal(1)), else_=null())


def active_run(connection: Connection, thread: ThreadId) -> RunId | None:
    """The run that occupies a thread: the one at work, else the first in the queue."""
    query = (
        select(runs.c.id)
        .where(runs.c.thread_id == thread, runs.c.status.in_(ACTIVE))
        .order_by(runs.c.status == "queued", runs.c.accepted_at, runs.c.id)
        .limit(1)
    )
    return connection.execute(query).scalar_one_or_none()


def _place(*, is_queued: bool) -> dict[str, object]:
    """Columns of a run at work, or of one that waits its turn."""
    if is_queued:
        return {"status": "queued", "work": "none", "ring_at": None}
    return {"status": "running", "work": "ready", "ring_at": text("now()")}


def _insert_run(
    connection: Connection,
    request: RunRequest,
    run_id: RunId,
    thread: ThreadId,
    columns: Mapping[str, object],
) -> None:
    tenant, user = request.principal.tenant, request.principal.user
    connection.execute(
        insert(runs).values(
            id=run_id,
            tenant=tenant,
            thread_id=thread,
            owner=user,
            next_seq=2,
            accepted_at=text("clock_timestamp()"),  # the order of the thread's lock, not of begins
            **columns,
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
            window_tokens=request.window_tokens,
            reserve_tokens=request.reserve_tokens,
            takes_pictures=request.takes_pictures,
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


def run_ids(
    connection: Connection, beginning: str, *, tenant: str | None, limit: int
) -> list[RunId]:
    """Ids that begin so, the first ones; of `tenant`, if given."""
    query = select(runs.c.id).where(runs.c.id.startswith(beginning, autoescape=True))
    if tenant is not None:
        query = query.where(runs.c.tenant == tenant)
    rows = connection.execute(query.order_by(runs.c.id).limit(limit))
    return [RunId(row.id) for row in rows]


RUN_QUERY: Final = (
    select(
        runs,
        run_specs.c.agent,
        run_specs.c.model,
        run_specs.c.workspace,
        entries.c.text.label("input"),
        workers.c.node.label("holder_node"),
        workers.c.pid.label("holder_pid"),
        literal_column(WAITS_FOR).label("waits_for"),
    )
    .join(run_specs, run_specs.c.run_id == runs.c.id)
    .join(entries, (entries.c.run_id == runs.c.id) & (entries.c.kind == "request"))
    .outerjoin(workers, workers.c.id == runs.c.holder)
    .prefix_with(text("/* runs.show */"))
)


def worker_name(node: str, pid: object) -> str:
    """A process as people name it; the node's row also holds the mark of its lock file."""
    return f"{node.partition(' ')[0]} pid {pid}"


def run_of(row: RowMapping) -> RunRow:
    """A row of RUN_QUERY."""
    holder = row["holder"]
    if row["holder_node"] is not None:
        holder = worker_name(row["holder_node"], row["holder_pid"])
    return RunRow(
        run_id=row["id"],
        thread_id=row["thread_id"],
        tenant=row["tenant"],
        owner=row["owner"],
        agent=row["agent"],
        model=row["model"],
        status=row["status"],
        reason=row["reason"],
        detail=row["detail"] or row["waits_for"],
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
