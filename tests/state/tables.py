"""The rows of the check in a real database: many runs at once, in few statements."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from loop.policy import Policy
from models.database import Row
from tests.factories import OWNER
from tests.models.story import a_reply
from tests.models.two_sessions import connect
from tests.state.record import (
    GONE,
    SETTLED,
    SHARED,
    Call,
    CallRef,
    Rows,
    Worker,
)
from umbel.contracts import CallId, RunId, WorkerId

GUEST: Final = "guest"
"""A collaborator of every thread."""
FIRST_SEQ: Final = 50
"""Number of the next event of every run."""
ENDED: Final = ("returned", "refused", "errored", "skipped")
_TOOLS: Final = {"mutation": "write", "read": "look"}
_REPLY: Final = a_reply("Hello.").model_dump_json()
PAST: Final = "2000-01-01T00:00:00Z"
FUTURE: Final = "2100-01-01T00:00:00Z"

_WORKERS: Final = """
INSERT INTO workers (id, node, role, pool, pid, beat_at, queues, tools)
SELECT 'wrk_' || n || CASE WHEN silent THEN '_silent' ELSE '' END, 'here', 'step', 'gevent', 1,
  now() + CASE WHEN silent THEN interval '-1 hour' ELSE interval '1 hour' END,
  ARRAY['umbel.tools'], ARRAY[CASE WHEN silent THEN 'of the silent' ELSE 'of the living' END]
FROM unnest(ARRAY[0, 1]) AS n, unnest(ARRAY[true, false]) AS silent
"""
_THREADS: Final = """
INSERT INTO threads (id, tenant, owner, visibility, collaborators)
SELECT 'thr_' || x.id, %(tenant)s, %(owner)s, 'public', ARRAY[%(guest)s]
FROM jsonb_to_recordset(%(rows)s) AS x(id text)
"""
_SPECS: Final = """
INSERT INTO run_specs (run_id, tenant, principal, agent, profile, model, instructions, policy,
  policy_sha, tools, tools_sha)
SELECT x.id, %(tenant)s, %(owner)s, 'a', 'steward', 'm', '', x.policy,
  sha256(convert_to(x.policy, 'UTF8')), '[]', sha256(convert_to('[]', 'UTF8'))
FROM jsonb_to_recordset(%(rows)s) AS x(id text, policy text)
"""
_INSERT: Final = """
INSERT INTO {table} ({columns})
SELECT {columns} FROM jsonb_populate_recordset(NULL::{table}, %(rows)s)
"""


def run_id(number: int) -> RunId:
    """The run of a case."""
    return RunId(f"run_{number:05}")


def call_id(number: int, ref: CallRef) -> CallId:
    """A call of a case."""
    return CallId(f"call_{number:05}_{ref[0]}_{ref[1]}")


def worker_id(worker: Worker, dead: frozenset[Worker]) -> WorkerId:
    """The process as the database knows it: silent ones have not been heard of for an hour."""
    if worker == GONE:
        return WorkerId("wrk_gone")
    return WorkerId(f"wrk_{worker}_silent" if worker in dead else f"wrk_{worker}")


def resource_key(number: int, key: str) -> str:
    """What a change of a case touches: cases do not meet."""
    return f"{number}:{key}"


def args_text(args: str) -> str:
    """The bytes of a call."""
    return json.dumps({"a": args})


def policy_text(rows: Rows, policy: Policy) -> str:
    """The policy of a run, with the limit that it has by now."""
    limit = {"tool_call_limit": rows.run.call_limit}
    return policy.model_copy(update=limit).model_dump_json()


class Tables:
    """A transaction that is never committed."""

    def __init__(self, url: str) -> None:
        self._connection = connect(url)

    def close(self) -> None:
        """Roll everything back."""
        self._connection.close()

    def run(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """The rows of one statement."""
        cursor = self._connection.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []

    @contextmanager
    def kept_or_undone(self) -> Iterator[None]:
        """A transaction of the product: what raises leaves nothing behind."""
        with self._connection.transaction():
            yield

    def clear(self) -> None:
        """As it was before anything was put in."""
        self._connection.rollback()

    def put(self, cases: Sequence[tuple[Rows, frozenset[Worker], Policy]]) -> None:
        """Write the rows of all cases; their numbers are their places."""
        whose = {"tenant": OWNER.tenant, "owner": OWNER.user, "guest": GUEST}
        ids = [{"id": run_id(n), "policy": policy_text(c[0], c[2])} for n, c in enumerate(cases)]
        self.run(_WORKERS)
        self.run(_THREADS, whose | {"rows": json.dumps(ids)})
        numbered = [(n, rows, dead) for n, (rows, dead, _) in enumerate(cases)]
        self._insert("runs", (_run_row(*case) for case in numbered))
        self.run(_SPECS, whose | {"rows": json.dumps(ids)})
        self._insert("model_calls", (m for case in numbered for m in _model_rows(*case)))
        self._insert("steers", (s for case in numbered for s in _steer_rows(*case)))
        self._insert("calls", (c for case in numbered for c in _call_rows(*case)))
        self._insert("calls", (c for n, rows, _ in numbered for c in _taken_rows(n, rows)))
        self._insert("receipts", (r for n, rows, _ in numbered for r in _receipt_rows(n, rows)))
        self._insert("events", (e for n, rows, _ in numbered for e in _event_rows(n, rows)))
        self._insert("evidence", (e for n, rows, _ in numbered for e in _evidence_rows(n, rows)))

    def _insert(self, table: str, rows: Iterable[Row]) -> None:
        values = list(rows)
        if values:
            sql = _INSERT.format(table=table, columns=", ".join(values[0]))
            self.run(sql, {"rows": json.dumps(values)})


def _run_row(number: int, rows: Rows, dead: frozenset[Worker]) -> Row:
    run = rows.run
    same = ("status", "reason", "work", "step", "attempts", "losses", "failures", "corrections")
    counted = (
        "fence",
        "open_calls",
        "open_approvals",
        "unknowns",
        "calls_used",
        "steer_rev",
        "steers",
        "policy_rev",
        "owner_must_approve",
    )
    return {name: getattr(run, name) for name in same + counted} | {
        "id": run_id(number),
        "tenant": OWNER.tenant,
        "owner": OWNER.user,
        "thread_id": f"thr_{run_id(number)}",
        "holder": None if run.holder is None else worker_id(run.holder, dead),
        "stop_at": PAST if run.is_stopped else None,
        "not_before": FUTURE if run.must_wait else None,
        "answer": "Hello." if run.is_answered else None,
        "settled_at": PAST if run.status in SETTLED else None,
        "accepted_at": PAST,
        "next_seq": FIRST_SEQ,
        "source_rev": 0,
        "auth_rev": 0,
        "rings": 0,
        "pause_reason": run.pause_reason,
        "pause_detail": None if run.pause_reason is None else "why",
    }


def _model_rows(number: int, rows: Rows, dead: frozenset[Worker]) -> Iterable[Row]:
    for model in rows.models:
        yield {
            "run_id": run_id(number),
            "step": model.step,
            "attempt": model.attempt,
            "tenant": OWNER.tenant,
            "fence": 0,
            "holder": worker_id(0, dead),
            "purpose": "main",
            "is_estimated": False,
            "opened_at": PAST,
            "steers": model.steers,
            "state": model.state,
            "decision": model.decision,
            "reply": _REPLY if model.has_usage else None,
            "total_tokens": 15 if model.has_usage else None,
            "closed_at": None if model.state == "open" else PAST,
        }


def _steer_rows(number: int, rows: Rows, _: frozenset[Worker]) -> Iterable[Row]:
    for rev, steer in enumerate(rows.steers, start=1):
        yield {
            "id": f"str_{number:05}_{rev}",
            "tenant": OWNER.tenant,
            "run_id": run_id(number),
            "rev": rev,
            "author": GUEST if steer.is_foreign else OWNER.user,
            "mode": steer.mode,
            "text": "Use staging.",
            "state": steer.state,
            "created_at": PAST,
            "settled_at": None if steer.state == "accepted" else PAST,
        }


def _call_rows(number: int, rows: Rows, dead: frozenset[Worker]) -> Iterable[Row]:
    for call in rows.calls:
        has_started = call.attempt > 0
        ended = call.state in (*ENDED, "unknown")
        yield {
            "id": call_id(number, call.ref),
            "run_id": run_id(number),
            "tenant": OWNER.tenant,
            "step": call.step,
            "position": call.position,
            "model_id": f"c{call.position}",
            "tool": _TOOLS[call.effect],
            "tool_version": "1",
            "effect": call.effect,
            "placement": "task",
            "state": call.state,
            "args_text": args_text(call.args),
            "args_sha": f"\\x{_sha(args_text(call.args))}",
            "steer_rev": call.steer_rev,
            "source_rev": 0,
            "auth_rev": 0,
            "needs_approval": call.needs_approval,
            "approved_sha": f"\\x{_sha(args_text(call.args))}" if call.is_approved else None,
            "approval_until": PAST if call.is_lapsed else FUTURE if call.is_approved else None,
            "attempt": call.attempt,
            "holder": None if call.holder is None else worker_id(call.holder, dead),
            "stall_seconds": 30,
            "resource_key": resource_key(number, call.key) if call.is_change else None,
            "quiet_until": {"active": FUTURE, "over": PAST}.get(call.quiet),
            "deadline_at": (PAST if call.is_overdue else FUTURE) if has_started else None,
            "started_at": PAST if has_started else None,
            "settled_at": PAST if ended else None,
            "rings": 0,
            "misses": call.misses,
        }


def _taken_rows(number: int, rows: Rows) -> Iterable[Row]:
    """The change of another run: its call is all that there is of it."""
    if rows.is_taken:
        other = Call(1, 1, "mutation", "", "started", 1, 0, key=SHARED)
        for row in _call_rows(number, Rows(calls=(other,)), frozenset()):
            yield row | {"id": f"{row['id']}_other", "run_id": f"{row['run_id']}_other"}


def _receipt_rows(number: int, rows: Rows) -> Iterable[Row]:
    for call in rows.calls:
        if call.receipt is None:
            continue
        verified = call.receipt.verified is not None
        yield call.receipt._asdict() | {
            "call_id": call_id(number, call.ref),
            "run_id": run_id(number),
            "tenant": OWNER.tenant,
            "attempt": call.attempt,
            "args_text": args_text(call.args),
            "args_sha": f"\\x{_sha(args_text(call.args))}",
            "intent_seq": 1,
            "intent_at": PAST,
            "closed_at": PAST if call.receipt.outcome else None,
            "verified_by": OWNER.user if verified else None,
            "verified_at": PAST if verified else None,
            "verified_text": "I looked into it." if verified else None,
        }


def _event_rows(number: int, rows: Rows) -> Iterable[Row]:
    """What people did before, as far as it was under a key."""
    for seq, key in enumerate(rows.keys, start=1):
        yield {
            "run_id": run_id(number),
            "seq": seq,
            "kind": "run.steered",
            "ref": run_id(number),
            "data": {"by": OWNER.user, "key": key},
            "fence": 0,
            "at": PAST,
        }


def _evidence_rows(number: int, rows: Rows) -> Iterable[Row]:
    for call in rows.calls:
        if call.state in ENDED:
            yield {
                "call_id": call_id(number, call.ref),
                "run_id": run_id(number),
                "thread_id": f"thr_{run_id(number)}",
                "tenant": OWNER.tenant,
                "body": "1",
                "view": "1",
                "sha256": f"\\x{_sha('1')}",
                "total_chars": 1,
                "is_escaped": False,
                "stored_at": PAST,
            }


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
