"""Which statements meet which rows: everything the search has seen, a few of each kind."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from loop.policy import Policy
from tests.state import approval_verbs, call_verbs, owner_verbs, verbs
from tests.state.record import Call, CallRef, Claim, Done, Planned, Rows, Worker
from tests.state.system import Scenario
from tests.state.world import Moment

Arguments = dict[str, object]

_PEOPLES: Final = ("claim_step", "steer_run", "resume_run")
_JOINING: Final = (
    "claim_step",
    "steer_run",
    "give_up_call",
    "settle_read",
    "settle_change",
    "settle_lost_change",
)
"""Verbs by which a run may pause that was to pause at its join, or forgets it."""
_CORRECTIONS: Final = (
    ("redirect", "owner", None),
    ("append", "owner", None),
    ("append", "owner", "k"),
    ("redirect", "guest", None),
    ("append", "stranger", None),
)
BATCHED: Final = ("take_over", "free_reads", "skip_void_calls", "expire_approvals")
"""Statements of the sweeper: each acts upon every run of the database at once."""


class Case(NamedTuple):
    """One verb on one record, and what the mirror makes of it."""

    verb: str
    rows: Rows
    dead: frozenset[Worker]
    policy: Policy
    arguments: Arguments
    done: Done

    @property
    def kind(self) -> tuple[object, ...]:
        """Cases of one kind go the same way through their statement."""
        before, after = self.rows.run, self.done.rows.run
        ends = (before.status, before.work, after.status, after.work)
        words = tuple(value for value in self.arguments.values() if isinstance(value, str | bool))
        if self.verb == "leave_call":
            return (self.verb, words, self.done.is_done, before.status, self._guards())
        held = (before.is_stopped, before.must_wait, before.steers > 0)
        pause = before.pause_reason if self.verb in _JOINING else None
        people = (before.owner_must_approve, before.call_limit) if self.verb in _PEOPLES else ()
        stands = (self.done.is_done, self.done.events, before.unknowns > 0)
        return (self.verb, words, stands, ends, held, pause, people, self._guards())

    def _attempts(self, claim: Claim | None) -> tuple[object, ...]:
        """What the attempts of the step have come to, and that of the claim; of older ones few."""
        step = self.rows.run.step
        found = {(m.step == step, m.state, m.decision) for m in self.rows.models if m.step <= step}
        own = [
            (m.state, m.decision)
            for m in self.rows.models
            if claim is not None and (m.step, m.attempt) == (claim.step, claim.attempt)
        ]
        return (frozenset(found) if claim is None else (), *own)

    def _guards(self) -> tuple[object, ...]:
        """Which conditions of its statement a claim or a call fulfils."""
        claim, run = self.arguments.get("claim"), self.rows.run
        call = next((c for c in self.rows.calls if c.ref == self.arguments.get("ref")), None)
        if isinstance(claim, Claim):
            is_same = (claim.worker == run.holder, claim.fence == run.fence, claim.step == run.step)
            heard = (claim.steer_rev == run.steer_rev, claim.steers == run.steers)
            return (*is_same, *heard, claim.is_stored, self._attempts(claim))
        if self.verb == "claim_step":
            return self._attempts(None)
        if call is None:
            return ()
        is_holder = call.holder == self.arguments.get("worker")
        is_due = (call.steer_rev == run.steer_rev, call.is_overdue, call.holder in self.dead)
        waits = (c for c in self.rows.calls if c.state == "planned")
        touched = any(call_verbs.is_touched(self.rows, c) for c in waits)
        key = (call.key, call_verbs.is_closed(self.rows, call.key), touched)
        done = call_verbs.was_done(self.rows, call)
        approval = (call.needs_approval, call.is_approved, call.is_lapsed)
        if self.verb == "leave_call":
            return (call.state, call.misses)
        return (call.state, call.attempt, call.receipt, is_holder, *is_due, *approval, *key, done)

    def __str__(self) -> str:
        return f"{self.verb}({self.arguments}) on {self.rows}, dead: {set(self.dead)}"


@dataclass(slots=True)
class Collector:
    """Shown every moment of a search, it keeps a few cases of each kind."""

    scenario: Scenario
    of_each: int
    kinds: dict[tuple[object, ...], int] = field(default_factory=dict)
    cases: list[Case] = field(default_factory=list)
    seen: int = 0
    """Different cases, kept or not."""
    _known: set[object] = field(default_factory=set)

    def __call__(self, moment: Moment) -> None:
        """Every verb that somebody might use now."""
        record = (moment.rows, moment.dead)
        if record not in self._known:
            self._known.add(record)
            self._keep(_record_cases(moment, self.scenario))
        for slot in (0, 1):
            claim = moment.minds[slot].claim
            if claim is None or not claim.attempt:
                continue
            claim = claim._replace(worker=slot)
            if (moment.rows, claim) not in self._known:
                self._known.add((moment.rows, claim))
                for other in _claims_like(claim):
                    self._keep(_claim_cases(moment, other, self.scenario))

    def _keep(self, cases: Iterator[Case]) -> None:
        for case in cases:
            self.seen += 1
            count = self.kinds.get(case.kind, 0)
            if count < self.of_each:
                self.kinds[case.kind] = count + 1
                self.cases.append(case)


@dataclass(frozen=True, slots=True)
class _At:
    """Makes the cases of one record."""

    moment: Moment
    scenario: Scenario

    def case(self, verb: str, run: Callable[..., Done], /, **arguments: object) -> Case:
        """What the mirror makes of it."""
        done = run(self.moment.rows, **arguments)
        policy = self.scenario.policy
        return Case(verb, self.moment.rows, self.moment.dead, policy, arguments, done)


def _record_cases(moment: Moment, scenario: Scenario) -> Iterator[Case]:
    case, rows = _At(moment, scenario).case, moment.rows
    for slot in (0, 1):
        yield case("claim_step", verbs.claim_step, step=rows.run.step, worker=slot)
        yield case("release_own", verbs.release_own, step=rows.run.step, worker=slot)
    yield case("put_off_step", verbs.put_off_step, step=rows.run.step)
    yield from _people_cases(case, rows)
    losses = scenario.policy.max_losses
    yield case("take_over", verbs.take_over, dead=moment.dead, max_losses=losses)
    yield case("free_reads", call_verbs.free_reads, dead=moment.dead)
    yield case("skip_void_calls", _skip_void_calls)
    yield case("expire_approvals", _expire_approvals)
    for call in rows.calls:
        yield from _call_cases(case, call, moment.dead)
        if not call.needs_approval:
            continue
        for is_shown in (True, False):
            asked = {"ref": call.ref, "is_shown": is_shown}
            parallel = scenario.policy.parallel
            yield case("grant_call", approval_verbs.grant_call, **asked, parallel=parallel)
            yield case("deny_call", approval_verbs.deny_call, **asked)


def _people_cases(case: Callable[..., Case], rows: Rows) -> Iterator[Case]:
    for key in (None, "k"):
        yield case("resume_run", owner_verbs.resume_run, key=key)
        yield case("stop_run", owner_verbs.stop_run, key=key)
    for mode, who, key in _CORRECTIONS:
        yield case("steer_run", owner_verbs.steer_run, mode=mode, who=who, key=key)
    if rows.run.call_limit:
        for is_current in (True, False):
            limit = {"limit": 7, "is_current": is_current}
            yield case("resume_run", owner_verbs.resume_run, **limit, key=None)


def _claims_like(claim: Claim) -> Iterator[Claim]:
    """The claim, and those that fail one condition: several guard the same thing."""
    yield claim
    yield claim._replace(worker=1 - claim.worker)
    yield claim._replace(fence=claim.fence + 1)


def _claim_cases(moment: Moment, claim: Claim, scenario: Scenario) -> Iterator[Case]:
    case = _At(moment, scenario).case
    planned: tuple[tuple[Planned, ...], ...] = (
        (),
        (Planned("read", "", "refused"),),
        (Planned("read", "", "errored"),),
        (Planned("read", "", "errored", repeats=True), Planned("read", "", "refused")),
        *(scenario.planned(calls) for calls in scenario.script),
    )
    # A step has its calls once; the database would refuse the second ones.
    for calls in planned:
        yield case("commit_dispatch", verbs.commit_dispatch, claim=claim, planned=calls)
    yield case("commit_answer", verbs.commit_answer, claim=claim)
    for waits in (True, False):
        yield case("commit_retry", verbs.commit_retry, claim=claim, waits=waits)
        yield case("book_reply", verbs.book_reply, claim=claim, discard=waits)
        yield case("hand_back", verbs.hand_back, claim=claim, is_failure=waits)
        pause = {"reason": "tool_call_limit", "keeps_reply": waits}
        yield case("commit_pause", verbs.commit_pause, claim=claim, **pause)
    unsent = {"reason": "context_capacity"}
    yield case("pause_unsent", verbs.pause_unsent, claim=claim, **unsent)
    yield case("fail_run", verbs.fail_run, claim=claim)


def _call_cases(case: Callable[..., Case], call: Call, dead: frozenset[Worker]) -> Iterator[Case]:
    ref, attempt = call.ref, call.attempt
    for pause in (None, "contract_mismatch"):
        refused = {"ref": ref, "state": "errored", "pause": pause}
        yield case("give_up_call", call_verbs.give_up_call, **refused)
    for is_known in (True, False):
        looked = {"ref": ref, "at_once": 1, "is_known": is_known}
        yield case("leave_call", call_verbs.leave_call, **looked)
    for slot in (0, 1):
        yield case("find_own_start", call_verbs.find_own_start, ref=ref, worker=slot)
        if call.is_change:
            yield case("record_intent", call_verbs.record_intent, ref=ref, worker=slot)
            continue
        at = {"ref": ref, "attempt": max(attempt, 1), "worker": slot}
        yield case("start_read", call_verbs.start_read, ref=ref, worker=slot)
        yield case("free_own_read", call_verbs.free_own_read, **at)
        yield case("hand_back_read", call_verbs.hand_back_read, **at)
        yield case("settle_read", call_verbs.settle_read, **at, state="returned")
        yield case("settle_read", call_verbs.settle_read, **at, state="errored")
    at = {"ref": ref, "attempt": max(attempt, 1)}
    if not call.is_change:
        yield case("settle_stalled_read", call_verbs.settle_stalled_read, **at)
        return
    yield case("settle_lost_change", call_verbs.settle_lost_change, **at, dead=dead)
    for outcome in ("done", "not_done", "unknown"):
        yield case("settle_change", _settle_change, **at, outcome=outcome)
    for word in ("happened", "not_happened", "partial"):
        yield case("verify_receipt", owner_verbs.verify_receipt, ref=ref, outcome=word)


def _settle_change(rows: Rows, ref: CallRef, attempt: int, outcome: str) -> Done:
    """What is not settled by it is noted beside the owner's word."""
    done = call_verbs.settle_change(rows, ref, attempt, outcome)
    if done.is_done or outcome == "unknown":
        return done
    return call_verbs.note_late(rows, ref, attempt, outcome)._replace(is_done=False)


def _skip_void_calls(rows: Rows) -> Done:
    """Each in a transaction of its own, of those that were void at first."""
    events: tuple[str, ...] = ()
    after, numbers = rows, 0
    for ref in call_verbs.void_calls(rows):
        done = call_verbs.give_up_call(after, ref, "skipped")
        after, events, numbers = done.rows, events + done.events, numbers + done.numbers
    return Done(after, numbers, events, is_done=after != rows)


def _expire_approvals(rows: Rows) -> Done:
    """Each in a transaction of its own, of those that were over at first."""
    events: tuple[str, ...] = ()
    after, numbers = rows, 0
    for call in rows.calls:
        if approval_verbs.is_over(call):
            done = approval_verbs.expire_approval(after, call.ref)
            after, events, numbers = done.rows, events + done.events, numbers + done.numbers
    return Done(after, numbers, events, is_done=after != rows)
