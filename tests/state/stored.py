"""The rows of a real database as rows of the check, and what the check has no words for."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from models.database import Row
from tests.factories import OWNER
from tests.state.record import GONE, Call, ModelCall, Receipt, Rows, Run, Steer, Worker
from tests.state.tables import ENDED, FIRST_SEQ, Tables
from umbel.contracts import RunId

_RUNS: Final = f"""
SELECT *, not_before > now() AS must_wait,
  EXISTS (SELECT FROM calls o WHERE o.run_id = runs.id || '_other') AS is_taken,
  next_seq - {FIRST_SEQ} AS numbers,
  (SELECT (s.policy::jsonb ->> 'tool_call_limit')::int FROM run_specs s
    WHERE s.run_id = runs.id) AS call_limit
FROM runs
"""
_CALLS: Final = """
SELECT c.*, coalesce(c.deadline_at + interval '5 seconds' < clock_timestamp(), false) AS is_overdue,
  coalesce(c.approval_until <= clock_timestamp(), false) AS is_lapsed,
  CASE WHEN c.quiet_until > now() THEN 'active' WHEN c.quiet_until IS NOT NULL THEN 'over'
    ELSE '' END AS quiet,
  x.call_id AS receipt, x.outcome, x.is_late, x.verified, x.late_outcome,
  e.call_id IS NOT NULL AS has_evidence
FROM calls c LEFT JOIN receipts x ON x.call_id = c.id LEFT JOIN evidence e ON e.call_id = c.id
WHERE c.run_id IN (SELECT id FROM runs)
ORDER BY c.run_id, c.step, c.position
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """A run as the database has it."""

    rows: Rows
    events: tuple[str, ...]
    numbers: int
    """Event numbers that were taken."""
    oddities: tuple[str, ...]
    """What no row of the check can express and must not be."""


def stored_in(tables: Tables) -> dict[RunId, Stored]:
    """Every run as it is now."""
    found = {RunId(row["id"]): _Parts(row) for row in tables.run(_RUNS)}
    for row in tables.run("SELECT * FROM model_calls ORDER BY run_id, step, attempt"):
        found[row["run_id"]].models.append(row)
    for row in tables.run("SELECT * FROM steers ORDER BY run_id, rev"):
        is_foreign = row["author"] != OWNER.user
        found[row["run_id"]].steers.append(Steer(row["mode"], row["state"], is_foreign))
    for row in tables.run(_CALLS):
        found[row["run_id"]].calls.append(row)
    for row in tables.run("SELECT * FROM events ORDER BY run_id, seq"):
        if row["seq"] >= FIRST_SEQ:
            found[row["run_id"]].events.append((row["seq"], row["kind"]))
        if "key" in row["data"]:
            found[row["run_id"]].keys.append(row["data"]["key"])
    for row in tables.run("SELECT run_id FROM deliveries"):
        found[row["run_id"]].deliveries += 1
    return {name: parts.stored() for name, parts in found.items()}


class _Parts:
    """Rows of one run, as they come."""

    def __init__(self, run: Row) -> None:
        self.run = run
        self.models: list[Row] = []
        self.steers: list[Steer] = []
        self.calls: list[Row] = []
        self.events: list[tuple[int, str]] = []
        self.keys: list[str] = []
        self.deliveries = 0

    def stored(self) -> Stored:
        rows = Rows(
            self._run(),
            tuple(_model(row) for row in self.models),
            tuple(_call(row) for row in self.calls),
            tuple(self.steers),
            tuple(self.keys),
            self.run["is_taken"],
        )
        kinds = tuple(kind for _, kind in self.events)
        return Stored(rows, kinds, self.run["numbers"], tuple(self._oddities()))

    def _run(self) -> Run:
        row = self.run
        same = {name: row[name] for name in Run._fields if name in row}
        return Run(
            **same
            | {
                "holder": _worker(row["holder"]),
                "is_stopped": row["stop_at"] is not None,
                "must_wait": bool(row["must_wait"]),
                "is_answered": row["answer"] is not None,
            }
        )

    def _oddities(self) -> Iterable[str]:
        if [seq for seq, _ in self.events] != list(range(FIRST_SEQ, FIRST_SEQ + len(self.events))):
            yield f"event numbers: {self.events}"
        for call in self.calls:
            if call["has_evidence"] != (call["state"] in ENDED):
                yield f"evidence of {call['id']}, which is {call['state']}"
        new_answers = self.deliveries + sum(m["decision"] == "answer" for m in self.models)
        if self.deliveries and new_answers != 2:
            yield f"{self.deliveries} deliveries"


def _model(row: Row) -> ModelCall:
    return ModelCall(
        row["step"],
        row["attempt"],
        row["state"],
        row["decision"],
        row["reply"] is not None and row["total_tokens"] is not None,
        row["steers"],
    )


def _call(row: Row) -> Call:
    receipt = None
    if row["receipt"] is not None:
        receipt = Receipt(row["outcome"], row["is_late"], row["verified"], row["late_outcome"])
    return Call(
        row["step"],
        row["position"],
        row["effect"],
        json.loads(row["args_text"])["a"] if row["args_text"] else "",
        row["state"],
        row["attempt"],
        _worker(row["holder"]) if row["state"] == "started" else None,
        row["steer_rev"],
        row["is_overdue"],
        receipt,
        row["needs_approval"],
        row["approved_sha"] is not None,
        row["is_lapsed"],
        row["misses"],
        key=(row["resource_key"] or "").partition(":")[2],
        quiet=row["quiet"],
    )


def _worker(name: str | None) -> Worker | None:
    if name is None:
        return None
    return GONE if name == "wrk_gone" else int(name.split("_")[1])
