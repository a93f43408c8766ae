"""The system under check: its verbs, exchangeable one by one for wrong ones, and its script."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from loop.decide import RunSnapshot, decide
from loop.decision import Decision
from loop.policy import Policy
from loop.response import Failure, ProposedCall, Text, ToolUse
from tests.state import approval_verbs, call_verbs, owner_verbs, verbs
from tests.state.record import SHARED, CallRef, Claim, Done, Planned, Rows

Verb = Callable[..., Done]
Script = tuple[tuple[ProposedCall, ...], ...]
"""What the model asks for in each step; after the last it answers."""

TWO_LOSSES: Final = Policy(max_losses=2)
DOWN: Final = Failure(error_class="server", is_retryable=True)


def asks(name: str, args: str = "") -> ProposedCall:
    """A call of a reply: of a tool that changes, asks before, reads, or is not there."""
    return ProposedCall(model_id=name + args, name=name, status="ok", arguments_text=args)


class Budget(NamedTuple):
    """How often something may happen that the system does not do by itself."""

    kills: int = 0
    silences: int = 0
    """Living workers that are taken for dead."""
    duplicates: int = 0
    flushes: int = 0
    stops: int = 0
    redirects: int = 0
    appends: int = 0
    resumes: int = 0
    verifications: int = 0
    failures: int = 0
    """Replies that are none."""
    errors: int = 0
    """Commits of a decision that raise."""
    unanswered: int = 0
    """Claims, starts and intents that are committed, and whose answer is lost."""
    drains: int = 0
    resets: int = 0
    """Tools that report nothing, with their request on its way."""
    refusals: int = 0
    """Requests the outside world refuses."""
    deadlines: int = 0
    missing: int = 0
    """Looks of workers without the tool."""
    grants: int = 0
    denials: int = 0
    lapses: int = 0
    """Questions and approvals that run out."""
    guests: int = 0
    """Corrections by a collaborator."""
    keyed: int = 0
    """Corrections under one and the same key."""
    raises: int = 0
    """Resumes with a higher limit."""
    early: int = 0
    """Steps that raise before their claim."""
    others: int = 0
    """Changes of another run that touch the same thing."""


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """What the model says and what may go wrong."""

    name: str
    script: Script
    budget: Budget
    policy: Policy = TWO_LOSSES

    def planned(
        self, calls: tuple[ProposedCall, ...], *, must_ask: bool = False
    ) -> tuple[Planned, ...]:
        """The calls as preflight leaves them; see tasks/planning.py."""
        rows: list[Planned] = []
        cleared, touched = 0, set[str]()
        for call in calls:
            if call.name == "mistaken":
                rows.append(Planned("read", "", "errored"))
                continue
            effect, args = "read" if call.name == "read" else "mutation", call.arguments_text or ""
            key = {"read": "", "shared": SHARED}.get(call.name, args)
            if call.name == "asked" or (must_ask and effect == "mutation"):
                rows.append(Planned(effect, args, "awaiting_approval", key=key))
                continue
            is_ready = cleared < self.policy.parallel and key not in touched
            cleared += is_ready
            touched |= {key} if is_ready and effect == "mutation" else set()
            rows.append(Planned(effect, args, "ready" if is_ready else "planned", key=key))
        return tuple(rows)

    def reply(self, step: int) -> Text | ToolUse:
        """What the model says in a step."""
        if step > len(self.script):
            return Text(text="Done.")
        return ToolUse(text="", calls=self.script[step - 1])

    def decide(self, claim: Claim, call_limit: int, *, fails: bool) -> Decision:
        """The product's own decision."""
        return _decide(self, claim.step, claim.failures, claim.calls_used, call_limit, fails)


@lru_cache(maxsize=10_000)
def _decide(
    scenario: Scenario, step: int, failures: int, calls_used: int, call_limit: int, fails: bool
) -> Decision:
    snapshot = RunSnapshot(
        step=step,
        policy=scenario.policy.model_copy(update={"tool_call_limit": call_limit}),
        failures=failures,
        calls_used=calls_used,
        is_stale=False,
        jitter=0.0,
    )
    return decide(snapshot, DOWN if fails else scenario.reply(step))


@dataclass(frozen=True, slots=True)
class System:
    """Every verb as the product has it. A planted fault replaces one of them, or a habit."""

    claim_step: Verb = verbs.claim_step
    commit_dispatch: Verb = verbs.commit_dispatch
    commit_answer: Verb = verbs.commit_answer
    commit_retry: Verb = verbs.commit_retry
    commit_pause: Verb = verbs.commit_pause
    book_reply: Verb = verbs.book_reply
    hand_back: Verb = verbs.hand_back
    release_own: Verb = verbs.release_own
    put_off_step: Verb = verbs.put_off_step
    take_over: Verb = verbs.take_over
    resume_run: Verb = owner_verbs.resume_run
    stop_run: Verb = owner_verbs.stop_run
    steer_run: Verb = owner_verbs.steer_run
    verify_receipt: Verb = owner_verbs.verify_receipt
    grant_call: Verb = approval_verbs.grant_call
    deny_call: Verb = approval_verbs.deny_call
    expire_approval: Verb = approval_verbs.expire_approval
    start_read: Verb = call_verbs.start_read
    record_intent: Verb = call_verbs.record_intent
    find_own_start: Verb = call_verbs.find_own_start
    hand_back_read: Verb = call_verbs.hand_back_read
    settle_read: Verb = call_verbs.settle_read
    settle_stalled_read: Verb = call_verbs.settle_stalled_read
    leave_call: Verb = call_verbs.leave_call
    give_up_call: Verb = call_verbs.give_up_call
    settle_change: Verb = call_verbs.settle_change
    settle_lost_change: Verb = call_verbs.settle_lost_change
    note_late: Verb = call_verbs.note_late
    free_reads: Verb = call_verbs.free_reads
    void_calls: Callable[[Rows], tuple[CallRef, ...]] = field(default=call_verbs.void_calls)
    sweeps: bool = True
    looks_at_the_clock: bool = True
    """Before it sends: a change whose deadline is over is not sent any more."""
    intends_first: bool = True
    checks_with_the_intent: bool = True
    books_with_the_decision: bool = True
