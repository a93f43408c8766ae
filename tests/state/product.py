"""The product's own store functions, called with what the mirror was called with."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from loop.decision import Answer, Pause, Retry
from loop.outcome import Errored, Returned, ToolOutcome, Unknown
from models.approvals import deny_call, expire_approvals, grant_call
from models.calls import (
    CallRow,
    Started,
    find_own_start,
    free_own_read,
    give_up,
    load_call,
    record_intent,
    settle,
    settle_lost_change,
    settle_stalled_read,
    start_read,
)
from models.claiming import put_off_step
from models.database import Database, Row, Statement
from models.handing_back import Patience, hand_back_read, leave_call
from models.owner import OtherLimits, resume_run, steer_run, stop_run, verify_receipt
from models.steps import (
    Claim,
    PreparedCall,
    book_reply,
    claim_step,
    commit_answer,
    commit_dispatch,
    commit_pause,
    commit_retry,
    fail_run,
    hand_back,
    pause_unsent,
    release_own,
)
from models.sweeping import free_reads, skip_void_calls, take_over_runs
from tests.factories import OWNER
from tests.models.story import CHANGE, READ, an_exchange
from tests.state import record
from tests.state.cases import Case
from tests.state.tables import (
    GUEST,
    Tables,
    args_text,
    call_id,
    policy_text,
    resource_key,
    run_id,
    worker_id,
)
from umbel.contracts import CallId, Principal, RunId, ThreadId, WorkerId

EVERY_RUN: Final = 1_000_000
PEOPLE: Final = {
    "owner": OWNER,
    "guest": Principal(tenant=OWNER.tenant, user=GUEST),
    "stranger": Principal(tenant=OWNER.tenant, user="eve"),
}
OUTCOMES: Final[dict[str, ToolOutcome]] = {
    "done": Returned("1"),
    "returned": Returned("1"),
    "not_done": Errored("no"),
    "errored": Errored("no"),
    "unknown": Unknown("?"),
}


class Uncommitted(Database):
    """A process whose transactions are all part of one that is rolled back."""

    def __init__(self, url: str, tables: Tables) -> None:
        super().__init__(url, role="state", pool_size=1)
        self._tables = tables

    def run(self, *statements: Statement) -> list[list[Row]]:
        """As `Database.run`, without the commit."""
        with self._tables.kept_or_undone():
            return [self._tables.run(sql, parameters) for sql, parameters in statements]


@dataclass(frozen=True, slots=True)
class At:
    """A case in the database."""

    database: Database
    number: int
    case: Case

    @property
    def run(self) -> RunId:
        """The run of the case."""
        return run_id(self.number)

    def who(self, arguments: Mapping[str, Any]) -> WorkerId:
        """The worker of a verb."""
        return worker_id(arguments["worker"], self.case.dead)

    def held(self, claim: record.Claim) -> Claim:
        """The claim that a worker would come with."""
        return Claim(
            run_id=self.run,
            thread_id=ThreadId(f"thr_{self.run}"),
            tenant=OWNER.tenant,
            step=claim.step,
            fence=claim.fence,
            worker=worker_id(claim.worker, self.case.dead),
            attempt=claim.attempt,
            claims=claim.claims,
            failures=claim.failures,
            corrections=claim.corrections,
            calls_used=claim.calls_used,
            steer_rev=claim.steer_rev,
            source_rev=0,
            auth_rev=0,
            steers=claim.steers,
            stored_text=None,
        )

    def call(self, arguments: Mapping[str, Any]) -> CallRow:
        """The call as a worker finds it."""
        call = load_call(self.database, call_id(self.number, arguments["ref"]))
        assert call is not None
        return call

    def started(self, arguments: Mapping[str, Any]) -> Started:
        """The proof that a worker would come with."""
        who = self.who(arguments) if "worker" in arguments else WorkerId("wrk_any")
        return Started(self.call(arguments), who, arguments["attempt"], "{}")

    def shown(self, arguments: Mapping[str, Any]) -> tuple[Database, CallId, Principal, bytes]:
        """A call and the hash of the bytes its owner was shown."""
        [sha] = (
            hashlib.sha256(args_text(call.args).encode()).digest()
            for call in self.case.rows.calls
            if call.ref == arguments["ref"]
        )
        name = call_id(self.number, arguments["ref"])
        return self.database, name, OWNER, sha if arguments["is_shown"] else b"other"

    def named(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A call by its ids, as the sweeper has it."""
        ids = {"call_id": call_id(self.number, arguments["ref"]), "run_id": self.run}
        return ids | {"attempt": arguments["attempt"]}


def prepared(number: int, position: int, call: record.Planned) -> PreparedCall:
    """A call of a decision."""
    is_cleared = call.state not in ("refused", "errored")
    return replace(
        CHANGE if call.effect == "mutation" else READ,
        resource_key=resource_key(number, call.key) if call.effect == "mutation" else None,
        position=position,
        model_id=f"c{position}",
        state=call.state,
        args_text=args_text(call.args) if is_cleared else None,
        body=None if is_cleared else '{"error":{"code":"no"}}',
        repeats=call.repeats,
    )


def dispatch(at: At, a: Mapping[str, Any]) -> object:
    """A decision with the calls of a case."""
    calls = [prepared(at.number, place, call) for place, call in enumerate(a["planned"], start=1)]
    return commit_dispatch(at.database, at.held(a["claim"]), an_exchange(), calls)


def give_back(at: At, a: Mapping[str, Any]) -> object:
    """A hand-back; after a failure it waits."""
    wait, is_failure = 3600.0 * a["is_failure"], a["is_failure"]
    held = at.held(a["claim"])
    return hand_back(at.database, held, wait_seconds=wait, detail="why", is_failure=is_failure)


def leave(at: At, a: Mapping[str, Any]) -> object:
    """A look of a worker without the tool: who has it lives, or has not been heard of."""
    tool = "of the living" if a["is_known"] else "of the silent"
    patience = Patience(a["at_once"], wait_seconds=3600.0, dead_after_seconds=10.0)
    return leave_call(at.database, at.call(a), tool, patience)


def other_limits(at: At, a: Mapping[str, Any]) -> OtherLimits | None:
    """Another limit of calls, made from the policy that the run has, or from one that it had."""
    if a.get("limit") is None:
        return None
    was = policy_text(at.case.rows, at.case.policy) if a["is_current"] else "{}"
    changes = {"tool_call_limit": a["limit"]}
    policy = at.case.policy.model_copy(update=changes).model_dump_json()
    return OtherLimits(policy, hashlib.sha256(was.encode()).digest(), changes)


def retry(at: At, a: Mapping[str, Any]) -> object:
    """A retry now, or after an hour."""
    decision = Retry("provider", 3600.0 * a["waits"], "down")
    return commit_retry(at.database, at.held(a["claim"]), an_exchange(), decision)


VERBS: Final[dict[str, Callable[[At, Mapping[str, Any]], object]]] = {
    "claim_step": lambda at, a: claim_step(at.database, at.run, a["step"], at.who(a)),
    "release_own": lambda at, a: release_own(at.database, at.run, a["step"], at.who(a)),
    "put_off_step": lambda at, a: put_off_step(
        at.database, at.run, a["step"], ring_after_seconds=3600.0
    ),
    "commit_dispatch": dispatch,
    "commit_answer": lambda at, a: commit_answer(
        at.database, at.held(a["claim"]), an_exchange(), Answer("Hello.")
    ),
    "commit_retry": retry,
    "commit_pause": lambda at, a: commit_pause(
        at.database, at.held(a["claim"]), an_exchange(), Pause(a["reason"], "why", a["keeps_reply"])
    ),
    "book_reply": lambda at, a: book_reply(
        at.database, at.held(a["claim"]), an_exchange(), discard=a["discard"]
    ),
    "hand_back": give_back,
    "pause_unsent": lambda at, a: pause_unsent(
        at.database, at.held(a["claim"]), Pause(a["reason"], "why")
    ),
    "fail_run": lambda at, a: fail_run(
        at.database, at.held(a["claim"]), reason="corrupt_record", detail="why"
    ),
    "resume_run": lambda at, a: resume_run(
        at.database, at.run, OWNER, limits=other_limits(at, a), key=a["key"]
    ),
    "stop_run": lambda at, a: stop_run(at.database, at.run, OWNER, key=a["key"]),
    "steer_run": lambda at, a: steer_run(
        at.database, at.run, PEOPLE[a["who"]], "Use staging.", a["mode"], key=a["key"]
    ),
    "verify_receipt": lambda at, a: verify_receipt(
        at.database, at.run, call_id(at.number, a["ref"]), OWNER, a["outcome"], "I looked into it."
    ),
    "grant_call": lambda at, a: grant_call(*at.shown(a)),
    "deny_call": lambda at, a: deny_call(*at.shown(a)),
    "start_read": lambda at, a: start_read(at.database, at.call(a), at.who(a)),
    "record_intent": lambda at, a: record_intent(at.database, at.call(a), at.who(a)),
    "find_own_start": lambda at, a: find_own_start(at.database, at.call(a), at.who(a)),
    "free_own_read": lambda at, a: free_own_read(at.database, at.started(a)),
    "hand_back_read": lambda at, a: hand_back_read(at.database, at.started(a)),
    "settle_read": lambda at, a: settle(at.database, at.started(a), OUTCOMES[a["state"]], "1"),
    "settle_change": lambda at, a: settle(at.database, at.started(a), OUTCOMES[a["outcome"]], "1"),
    "leave_call": leave,
    "give_up_call": lambda at, a: give_up(
        at.database, at.call(a), Errored("no"), a["pause"] and Pause(a["pause"], "why")
    ),
    "settle_stalled_read": lambda at, a: settle_stalled_read(
        at.database, **at.named(a), outcome=Errored("no")
    ),
    "settle_lost_change": lambda at, a: settle_lost_change(
        at.database, **at.named(a), dead_after_seconds=0
    ),
}
"""By the mirror's name of a verb: the product's function; None and False say: nothing was done."""


def sweep(database: Database, verb: str) -> None:
    """One statement of the sweeper, upon every run of the database."""
    match verb:
        case "take_over":
            take_over_runs(database, dead_after_seconds=0, limit=EVERY_RUN)
        case "free_reads":
            free_reads(database, dead_after_seconds=0, limit=EVERY_RUN)
        case "expire_approvals":
            expire_approvals(database, limit=EVERY_RUN)
        case _:
            skip_void_calls(database, limit=EVERY_RUN)
