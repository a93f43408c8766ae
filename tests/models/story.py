"""Runs brought to a certain point by the product's own verbs, and short looks at the rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from loop.decision import Pause
from loop.response import ModelTurn, ProposedCall, Usage
from models.calls import (
    Settled,
    Started,
    load_call,
    record_intent,
    settle_lost_change,
    start_read,
)
from models.database import Database
from models.runs import Accepted
from models.steps import (
    Applied,
    Claim,
    Exchange,
    PreparedCall,
    claim_step,
    commit_dispatch,
    commit_pause,
)
from models.workers import register
from tests.factories import RunWish, a_run
from tests.worker_processes import wait_until
from umbel.contracts import CallId, RunId, WorkerId

ME: Final = WorkerId("wrk_me")
OTHER: Final = WorkerId("wrk_other")

READ: Final = PreparedCall(
    position=1,
    model_id="c1",
    tool="look",
    tool_version="1",
    effect="read",
    placement="task",
    state="ready",
    args_text='{"path":"."}',
    stall_seconds=30.0,
)
CHANGE: Final = replace(READ, tool="write", effect="mutation")
DEAD_AFTER: Final = 1.5
"""Seconds of silence that make a worker dead in these tests."""
_PAST_GRACE: Final = "SELECT 1 WHERE pg_postmaster_start_time() < now() - interval '6.7 seconds'"

REFUSED: Final = replace(READ, state="refused", args_text=None, body='{"error":{"code":"no"}}')


def in_order(*calls: PreparedCall) -> list[PreparedCall]:
    """The same calls with positions and ids by their place."""
    return [replace(call, position=at, model_id=f"c{at}") for at, call in enumerate(calls, start=1)]


def a_reply(text: str = "", calls: Sequence[PreparedCall] = (), tokens: int = 15) -> ModelTurn:
    """What a model might have said to make these calls."""
    asked = (
        ProposedCall(
            model_id=call.model_id,
            name=call.tool,
            status="ok" if call.args_text else "invalid_arguments",
            arguments_text=call.args_text,
        )
        for call in calls
    )
    return ModelTurn(
        text=text,
        calls=tuple(asked),
        usage=Usage(input_tokens=tokens - 5, output_tokens=5, total_tokens=tokens),
        finish="tool_calls" if calls else "stop",
    )


def an_exchange(reply: ModelTurn | None = None) -> Exchange:
    """One model call as the provider adapter reports it."""
    return Exchange(reply or a_reply("Hello."), "local/chat", '{"version":1}', b"\x01" * 32)


def beat(database: Database, worker: WorkerId = ME, node: str = "step@here") -> None:
    """Let the database know that `worker` lives now."""
    register(database, worker, node=node, role="step", pool="gevent", pid=1)


def fall_silent(database: Database, worker: WorkerId = ME) -> None:
    """Let the last beat of `worker` be long ago, and PostgreSQL be up long enough to know it."""
    change(
        database,
        "UPDATE workers SET beat_at = now() - interval '1 minute' WHERE id = %(id)s",
        id=worker,
    )
    wait_until(lambda: bool(query(database, _PAST_GRACE)), 10, "PostgreSQL is up long enough")


def claimed(
    database: Database, run_id: RunId | None = None, *, step: int = 1, worker: WorkerId = ME
) -> Claim:
    """A claim that must succeed; of a fresh run if none is named."""
    claim = claim_step(database, run_id or a_run(database).run_id, step, worker)
    assert claim is not None, "the run could not be claimed"
    return claim


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A run whose step has decided on calls."""

    claim: Claim
    calls: list[CallId]
    applied: Applied

    @property
    def run_id(self) -> RunId:
        """The run."""
        return self.claim.run_id


def a_paused_run(database: Database) -> RunId:
    """A fresh run that the endpoint's refusal of the key has paused at its first step."""
    claim = claimed(database)
    commit_pause(database, claim, an_exchange(), Pause("credentials", "No key."))
    return claim.run_id


def dispatched(
    database: Database, *calls: PreparedCall, claim: Claim | None = None, worker: WorkerId = ME
) -> Dispatched:
    """A run with these calls, in this order; of a fresh run if no claim is given."""
    claim = claim or claimed(database, worker=worker)
    prepared = in_order(*calls)
    exchange = an_exchange(a_reply(calls=prepared))
    applied = commit_dispatch(database, claim, exchange, prepared)
    assert applied is not None, "the decision was not applied"
    return Dispatched(claim, call_ids(database, claim.run_id, claim.step), applied)


def started(database: Database, call_id: CallId, worker: WorkerId = ME) -> Started:
    """A read that is started, or a change whose intent is recorded; it must succeed."""
    call = load_call(database, call_id)
    assert call is not None
    write = record_intent if call.effect == "mutation" else start_read
    proof = write(database, call, worker)
    assert proof is not None, "the call could not be started"
    return proof


def made_unknown(database: Database, call_id: CallId) -> Settled | None:
    """What comes of it when the sweeper gives a change up, if it may."""
    call = load_call(database, call_id)
    assert call is not None
    return settle_lost_change(
        database,
        call_id=call_id,
        run_id=call.run_id,
        attempt=call.attempt,
        dead_after_seconds=DEAD_AFTER,
    )


@dataclass(frozen=True, slots=True)
class Thread:
    """Runs of one thread, in the order they were accepted."""

    first: Accepted
    queued: list[Accepted] = field(default_factory=list)


def a_thread(database: Database, *, waiting: int = 1) -> Thread:
    """A thread with one active run and others behind it."""
    first = a_run(database)
    wish = RunWish(thread_id=first.thread_id)
    return Thread(first, [a_run(database, wish) for _ in range(waiting)])


def query(database: Database, sql: str, /, **parameters: Any) -> list[dict[str, Any]]:
    """The rows of a look at the database."""
    [rows] = database.run((sql, parameters))
    return rows


def change(database: Database, sql: str, /, **parameters: Any) -> None:
    """A write from outside: what another part of the system, or time, would do."""
    database.run((sql, parameters))


def run_row(database: Database, run_id: RunId) -> dict[str, Any]:
    """The row of a run."""
    [row] = query(database, "SELECT * FROM runs WHERE id = %(id)s", id=run_id)
    return row


def call_row(database: Database, call_id: CallId) -> dict[str, Any]:
    """The row of a call."""
    [row] = query(database, "SELECT * FROM calls WHERE id = %(id)s", id=call_id)
    return row


def receipt_row(database: Database, call_id: CallId) -> dict[str, Any]:
    """The row of a receipt."""
    [row] = query(database, "SELECT * FROM receipts WHERE call_id = %(id)s", id=call_id)
    return row


def attempts(database: Database, run_id: RunId, step: int = 1) -> list[tuple[Any, ...]]:
    """(attempt, state, decision) of a step's model calls."""
    rows = query(
        database,
        "SELECT attempt, state, decision FROM model_calls"
        " WHERE run_id = %(id)s AND step = %(step)s ORDER BY attempt",
        id=run_id,
        step=step,
    )
    return [tuple(row.values()) for row in rows]


def call_ids(database: Database, run_id: RunId, step: int = 1) -> list[CallId]:
    """The calls of a step in the model's order."""
    rows = query(
        database,
        "SELECT id FROM calls WHERE run_id = %(id)s AND step = %(step)s AND refreshes IS NULL"
        " ORDER BY position",
        id=run_id,
        step=step,
    )
    return [CallId(row["id"]) for row in rows]


def call_states(database: Database, run_id: RunId, step: int = 1) -> list[str]:
    """The states of a step's calls in the model's order."""
    return [call_row(database, call_id)["state"] for call_id in call_ids(database, run_id, step)]


def event_kinds(database: Database, run_id: RunId) -> list[str]:
    """What happened to a run, in order."""
    rows = query(
        database, "SELECT seq, kind FROM events WHERE run_id = %(id)s ORDER BY seq", id=run_id
    )
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1)), "numbers have no gap"
    return [row["kind"] for row in rows]


def count(database: Database, table: str) -> int:
    """How many rows a table has."""
    [row] = query(database, f"SELECT count(*) AS n FROM {table}")
    return int(row["n"])
