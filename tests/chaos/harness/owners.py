"""The people: they hand in requests, correct, stop, resume, approve, say what became of changes.

What they were told counts is in the ledger; what failed on the way to them they do not rely on.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from loop.policy import PermissionMode
from models.approvals import deny_call, grant_call
from models.calls import ReadyCall
from models.database import Database, Row
from models.owner import resume_run, steer_run, stop_run, verify_receipt
from tasks.acceptance import AgentSpec, NewRequest, accept
from tasks.ringing import Ringer
from tests.chaos.harness.ledger import Accepted, Ack, Ledger
from tests.chaos.harness.script import TOOLS, Script, model_of, request_of
from tools.registry import ToolRegistry
from umbel.contracts import CallId, Principal, RunId, ThreadId, new_id
from umbel.errors import Unavailable
from umbel.names import SteerMode, Verification

Result = TypeVar("Result")

SURE_AFTER_SECONDS: Final = 12.0
"""Nobody is frozen for so long: what has not happened by then will not happen any more."""
_TENANTS: Final = 3
_UNKNOWN: Final = f"""
SELECT c.id, c.run_id, c.settled_at < now() - interval '{SURE_AFTER_SECONDS:g} seconds' AS is_old
FROM calls c WHERE c.state = 'unknown'
"""
_ASKED: Final = """
SELECT id, run_id, args_text, args_sha FROM calls WHERE state = 'awaiting_approval'
"""
_AT_REST: Final = "SELECT id, status FROM runs WHERE status IN ('paused', 'failed', 'cancelled')"
_UNSETTLED: Final = """
SELECT count(*) AS n FROM runs WHERE status IN ('queued', 'running', 'waiting', 'cancelling')
"""


@dataclass(slots=True)
class Owners:
    """All of them; used by one thread at a time."""

    database: Database
    ringer: Ringer
    registry: ToolRegistry
    ledger: Ledger
    chance: random.Random
    script: Script
    _pending: tuple[int, RunId, ThreadId | None] | None = None
    _tenants: dict[str, str] = field(default_factory=dict)

    @property
    def entered(self) -> int:
        """Requests that were confirmed."""
        return len(self.ledger.accepted)

    def enter(self, *, in_threads: bool = True) -> bool:
        """Hand in the next request, or once more the one that got no answer; whether it counts."""
        if self._pending is None:
            number = self.entered
            self._pending = number, RunId(new_id("run")), self._some_thread(number, in_threads)
        number, run_id, thread_id = self._pending
        request = NewRequest(
            principal=_owner_of(number),
            input=request_of(number),
            model=model_of(number),
            run_id=run_id,
            thread_id=thread_id,
        )
        asks = self.script.asks_first(number)
        agent = _agent("ask" if asks else "full_access")
        accepted = _told(lambda: accept(self.database, self.registry, agent, request))
        if accepted is None:
            return False
        self._pending = None
        self.ledger.note_accepted(Accepted(number, run_id, accepted.thread_id, asks))
        if not accepted.is_queued:
            self.ringer.ring_step(run_id, 1)
        return True

    def unsettled(self) -> int | None:
        """Runs that may go on by themselves; None: PostgreSQL does not answer."""
        rows = self._query(_UNSETTLED)
        return None if rows is None else int(rows[0]["n"])

    def do_something(self) -> None:
        """One seeded word to a seeded run."""
        if not self.ledger.accepted:
            return
        chosen = self.chance.choice(self.ledger.accepted[-40:])
        run_id, owner = RunId(chosen.run_id), _owner_of(chosen.run)
        what = self.chance.choices(
            (self._stop, self._append, self._redirect, self._resume), (2, 4, 4, 5)
        )[0]
        what(run_id, owner)

    def say_what_happened(self, *, everywhere: bool = False) -> None:
        """Look at the world outside for every unknown change, and say what is so.

        Args:
            everywhere: say it of all of them, too where nothing happened lately.
        """
        for row in self._query(_UNKNOWN) or []:
            has_happened = self.ledger.effect_of(row["id"]) is not None
            if everywhere or (self.chance.random() < 0.2 and (has_happened or row["is_old"])):
                self._verify(RunId(row["run_id"]), CallId(row["id"]), has_happened=has_happened)

    def decide(self, *, everywhere: bool = False) -> None:
        """Approve and deny changes that wait for it.

        Args:
            everywhere: decide upon all of them, not upon some.
        """
        for row in self._query(_ASKED) or []:
            if everywhere or self.chance.random() < 0.2:
                self._decide(RunId(row["run_id"]), CallId(row["id"]), row)

    def resume_all(self) -> int:
        """Let every run that is at rest and not cancelled go on; how many there were."""
        rows = [row for row in self._query(_AT_REST) or [] if row["status"] != "cancelled"]
        for row in rows:
            self._resume(RunId(row["id"]), self._owner(row["id"]))
        return len(rows)

    def _stop(self, run_id: RunId, owner: Principal) -> None:
        stopped = _told(lambda: stop_run(self.database, run_id, owner))
        if stopped is None:
            return
        self.ledger.note_ack(Ack("stop", run_id, ""))
        for promoted, step in stopped.promoted:
            self.ringer.ring_step(promoted, step)

    def _append(self, run_id: RunId, owner: Principal) -> None:
        self._steer(run_id, owner, "append")

    def _redirect(self, run_id: RunId, owner: Principal) -> None:
        self._steer(run_id, owner, "redirect")

    def _steer(self, run_id: RunId, owner: Principal, mode: SteerMode) -> None:
        steered = _told(
            lambda: steer_run(self.database, run_id, owner, "Mind the gap, please.", mode)
        )
        if steered is None:
            return
        self.ledger.note_ack(Ack("steer", run_id, steered.steer_id))
        if steered.next_step is not None:
            self.ringer.ring_step(run_id, steered.next_step)

    def _resume(self, run_id: RunId, owner: Principal) -> None:
        step = _told(lambda: resume_run(self.database, run_id, owner))
        if step is None:
            return
        self.ledger.note_ack(Ack("resume", run_id, ""))
        self.ringer.ring_step(run_id, step)

    def _verify(self, run_id: RunId, call_id: CallId, *, has_happened: bool) -> None:
        word: Verification = "happened" if has_happened else "not_happened"
        owner, text = self._owner(run_id), f"I looked: {word}."
        left = _told(lambda: verify_receipt(self.database, run_id, call_id, owner, word, text))
        if left is not None:
            self.ledger.note_ack(Ack("verify", run_id, f"{call_id} {word}"))

    def _decide(self, run_id: RunId, call_id: CallId, row: Row) -> None:
        owner, key, sha = self._owner(run_id), json.loads(row["args_text"])["key"], row["args_sha"]
        if self.script.is_allowed(key):
            self.ledger.note_allowed(call_id, key)
            granted = _told(lambda: grant_call(self.database, call_id, owner, sha))
            if granted is None:
                return
            self.ledger.note_ack(Ack("approve", run_id, call_id))
            self._ring(run_id, granted.ready, None)
        else:
            denied = _told(lambda: deny_call(self.database, call_id, owner, sha, "Not this one."))
            if denied is None:
                return
            self.ledger.note_ack(Ack("deny", run_id, call_id))
            self._ring(run_id, denied.settled.next_call, denied.settled.next_step)

    def _ring(self, run_id: RunId, call: ReadyCall | None, step: int | None) -> None:
        if call is not None:
            self.ringer.ring_call(call.call_id, call.tool)
        if step is not None:
            self.ringer.ring_step(run_id, step)

    def _owner(self, run_id: str) -> Principal:
        number = next(a.run for a in self.ledger.accepted if a.run_id == run_id)
        return _owner_of(number)

    def _some_thread(self, number: int, in_threads: bool) -> ThreadId | None:
        """One request in five goes into the thread of an earlier one of the same owner."""
        earlier = [a for a in self.ledger.accepted[-30:] if _owner_of(a.run) == _owner_of(number)]
        if not in_threads or not earlier or self.chance.random() > 0.2:
            return None
        return ThreadId(self.chance.choice(earlier).thread_id)

    def _query(self, sql: str) -> list[Row] | None:
        rows = _told(lambda: self.database.run((sql, {})))
        return None if rows is None else rows[0]


def _agent(permission: PermissionMode) -> AgentSpec:
    policy = {"retry_base_seconds": 0.2, "retry_max_seconds": 1.0, "permission_mode": permission}
    return AgentSpec(name="chaos", tools=list(TOOLS), policy=policy)


def _owner_of(number: int) -> Principal:
    return Principal(tenant=f"tenant{number % _TENANTS}", user="ann")


def _told(ask: Callable[[], Result | None]) -> Result | None:
    """What the product answered; None when it did not: then nobody knows whether it counts."""
    try:
        return ask()
    except Unavailable:
        return None
