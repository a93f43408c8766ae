"""Any order of events: workers that die, return, repeat themselves and act on what is long over.

Every action is one the product may take at some moment, with proofs that may be stale. Afterwards
a fresh worker and the sweeper bring everything to rest, and the record must be whole.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import fakeredis
import pytest

from locks.ownership import OwnershipLocks
from loop.decision import Answer, Pause, Retry
from loop.outcome import Errored, Returned, ToolOutcome, Unknown
from models.calls import Started, load_call, record_intent, settle, start_read
from models.database import Database
from models.steps import (
    Claim,
    Exchange,
    book_reply,
    claim_step,
    commit_answer,
    commit_dispatch,
    commit_pause,
    commit_retry,
    hand_back,
    release_own,
)
from scheduler.bell import Ring
from scheduler.sweeper import Sweeper
from tests.factories import RunWish, a_run
from tests.invariants import violations
from tests.models.story import (
    CHANGE,
    DEAD_AFTER,
    READ,
    REFUSED,
    a_reply,
    an_exchange,
    beat,
    change,
    fall_silent,
    in_order,
    query,
)
from umbel.contracts import CallId, RunId, WorkerId

WORKERS = [WorkerId(f"wrk_{name}") for name in "abc"]
HEIR = WorkerId("wrk_heir")
ACTIONS_PER_STORY = 220
OUTCOMES: list[ToolOutcome] = [
    Returned('"ok"'),
    Returned('"ok"'),
    Errored('{"error":{"code":"x"}}'),
    Unknown("reset"),
]


class DeafBell:
    """The messages come by themselves here."""

    def ring_step(self, run_id: RunId, step: int, rings: int = 0) -> bool:
        return True

    def ring_call(self, call_id: CallId, tool: str, rings: int = 0) -> bool:
        return True

    def ring_all(self, rings: Sequence[Ring]) -> bool:
        return True

    def waiting(self) -> Mapping[str, int]:
        return {}


@dataclass
class Story:
    """What has happened so far, and the dice."""

    database: Database
    chance: random.Random
    sweeper: Sweeper
    claims: list[Claim] = field(default_factory=list)
    proofs: list[Started] = field(default_factory=list)
    sent: list[CallId] = field(default_factory=list)

    def claim(self) -> None:
        row = self.chance.choice(self._some("SELECT id, step FROM runs ORDER BY id"))
        claim = claim_step(self.database, row["id"], row["step"], self._worker())
        if claim is not None:
            self.claims.append(claim)

    def decide(self) -> None:
        claim = self._claim()
        if claim is None:
            return
        stored = claim.stored_reply
        exchange = an_exchange() if stored is None else Exchange(stored, None, None, None)
        match self.chance.randrange(8):
            case 0 if claim.step > 2:
                commit_answer(self.database, claim, exchange, Answer("Hello."))
            case 1:
                commit_retry(self.database, claim, exchange, Retry("provider", 0.0, "server"))
            case 2 if claim.step > 3:
                commit_pause(self.database, claim, exchange, Pause("stall", "enough"))
            case _:
                self._dispatch(claim, exchange)

    def give_up_a_reply(self) -> None:
        claim = self._claim()
        if claim is not None:
            discard = self.chance.random() < 0.7
            book_reply(self.database, claim, an_exchange(), discard=discard)
            hand_back(self.database, claim, wait_seconds=0, detail="x", is_failure=False)

    def lose_an_answer(self) -> None:
        claim = self._claim()
        if claim is not None:
            release_own(self.database, claim.run_id, claim.step, claim.worker)

    def start(self) -> None:
        rows = self._some("SELECT id FROM calls ORDER BY id")
        call = load_call(self.database, self.chance.choice(rows)["id"]) if rows else None
        if call is None:
            return
        if call.effect == "mutation":
            proof = record_intent(self.database, call, self._worker())
            self.sent += [call.call_id] if proof else []
        else:
            proof = start_read(self.database, call, self._worker())
        if proof is not None:
            self.proofs.append(proof)

    def settle(self) -> None:
        if self.proofs:
            settle(
                self.database,
                self.chance.choice(self.proofs[-6:]),
                self.chance.choice(OUTCOMES),
                "view",
            )

    def die(self) -> None:
        fall_silent(self.database, self._worker())
        self.sweeper.sweep()
        for worker in WORKERS:
            beat(self.database, worker)

    def grow_late(self) -> None:
        change(
            self.database,
            "UPDATE calls SET deadline_at = now() - interval '1 minute'"
            " WHERE state = 'started' AND effect = 'mutation' AND position = %(position)s",
            position=self.chance.randint(1, 4),
        )
        self.sweeper.sweep()

    def correct(self) -> None:
        change(self.database, "UPDATE runs SET steer_rev = steer_rev + 1 WHERE work = 'held'")

    def _dispatch(self, claim: Claim, exchange: Exchange) -> None:
        kinds = [READ, READ, CHANGE, REFUSED, replace(READ, state="planned")]
        calls = in_order(*(self.chance.choice(kinds) for _ in range(self.chance.randint(1, 4))))
        if not any(call.state == "ready" for call in calls):
            calls = [replace(call, state="ready") if call.body is None else call for call in calls]
        stored = exchange.endpoint is None
        sent = exchange if stored else an_exchange(a_reply(calls=calls))
        commit_dispatch(self.database, claim, sent, calls)

    def _claim(self) -> Claim | None:
        return self.chance.choice(self.claims[-5:]) if self.claims else None

    def _worker(self) -> WorkerId:
        return self.chance.choice(WORKERS)

    def _some(self, sql: str) -> list[dict[str, Any]]:
        return query(self.database, sql)


def bring_to_rest(story: Story) -> None:
    """Everybody is dead but one, who does what is ready until nothing is."""
    database = story.database
    change(database, "DELETE FROM workers")
    for _ in range(200):
        beat(database, HEIR)
        story.sweeper.sweep()
        change(database, "UPDATE runs SET not_before = NULL WHERE work = 'ready'")
        ready = query(database, "SELECT id, step FROM runs WHERE work = 'ready'")
        waiting = query(database, "SELECT id FROM calls WHERE state = 'ready'")
        if not ready and not waiting:
            return
        for row in ready:
            claim = claim_step(database, row["id"], row["step"], HEIR)
            assert claim is not None, "a ready run that nobody can claim"
            commit_answer(database, claim, an_exchange(), Answer("Hello."))
        for row in waiting:
            call = load_call(database, row["id"])
            assert call is not None
            write = record_intent if call.effect == "mutation" else start_read
            proof = write(database, call, HEIR)
            if proof is not None:
                settle(database, proof, Returned('"ok"'), "view")
    pytest.fail("it does not come to rest")


@pytest.mark.parametrize("seed", range(5))
def test_in_any_order_of_events_the_record_stays_whole(database: Database, seed: int) -> None:
    locks = OwnershipLocks(fakeredis.FakeRedis(decode_responses=True), prefix="u", ttl_seconds=30)
    sweeper = Sweeper(database, locks, DeafBell(), DEAD_AFTER, 60)
    story = Story(database, random.Random(seed), sweeper)
    wish = RunWish(policy={"max_losses": 20})
    for _ in range(3):
        first = a_run(database, wish)
        a_run(database, replace(wish, thread_id=first.thread_id))
    for worker in WORKERS:
        beat(database, worker)
    actions: list[Callable[[], None]] = [
        *(story.claim, story.claim, story.claim, story.decide, story.decide, story.decide),
        *[story.start] * 5,
        *[story.settle] * 5,
        *(story.give_up_a_reply, story.lose_an_answer, story.die, story.grow_late, story.correct),
    ]
    for _ in range(ACTIONS_PER_STORY):
        story.chance.choice(actions)()
    bring_to_rest(story)
    assert violations(database) == []
    assert len(story.sent) == len(set(story.sent)), "a change was sent twice"
    statuses = {row["status"] for row in query(database, "SELECT DISTINCT status FROM runs")}
    assert statuses <= {"completed", "paused"}
