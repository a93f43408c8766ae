"""Many runs, many workers, every message twice: no join lost, no intent doubled, no event gap."""

import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock

from loop.decision import Answer
from loop.outcome import Returned
from models.calls import load_call, record_intent, settle, start_read
from models.database import Database
from models.steps import Applied, claim_step, commit_answer, commit_dispatch
from models.sweeping import promote_runs
from tests.factories import RunWish, a_run
from tests.invariants import violations
from tests.models.story import CHANGE, READ, a_reply, an_exchange, in_order, query
from umbel.contracts import CallId, RunId, WorkerId

THREADS, RUNS_PER_THREAD, SESSIONS = 20, 3, 8
CALLS = in_order(READ, CHANGE, READ, replace(READ, state="planned"))

Message = tuple[str, int]


class Bell:
    """A broker that delivers everything twice, in any order."""

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()
        self._lock = Lock()
        self._chance = random.Random(7)
        self.busy = 0

    def ring(self, what: str, step: int = 0) -> None:
        with self._lock:
            for _ in range(2):
                self._waiting.insert(self._chance.randint(0, len(self._waiting)), (what, step))

    def take(self) -> Message | None:
        with self._lock:
            if not self._waiting:
                return None
            self.busy += 1
            return self._waiting.popleft()

    def done(self) -> None:
        with self._lock:
            self.busy -= 1


def work(database: Database, bell: Bell, worker: WorkerId) -> None:
    while True:
        message = bell.take()
        if message is None:
            if not bell.busy:
                return
            continue
        try:
            what, step = message
            if step:
                carry_step(database, bell, RunId(what), step, worker)
            else:
                carry_call(database, bell, CallId(what), worker)
        finally:
            bell.done()


def carry_step(database: Database, bell: Bell, run_id: RunId, step: int, worker: WorkerId) -> None:
    claim = claim_step(database, run_id, step, worker)
    if claim is None:
        return
    if step == 1:
        exchange = an_exchange(a_reply(calls=CALLS))
        applied = commit_dispatch(database, claim, exchange, CALLS)
    else:
        applied = commit_answer(database, claim, an_exchange(), Answer("Hello."))
    for call in (applied or Applied()).ready_calls:
        bell.ring(call.call_id)
    for promoted, first in (applied or Applied()).promoted:
        bell.ring(promoted, first)


def carry_call(database: Database, bell: Bell, call_id: CallId, worker: WorkerId) -> None:
    call = load_call(database, call_id)
    assert call is not None
    write = record_intent if call.effect == "mutation" else start_read
    proof = write(database, call, worker)
    if proof is None:
        return
    for _ in range(2):
        settled = settle(database, proof, Returned('{"ok":true}'), "ok")
        if settled is not None and settled.next_call is not None:
            bell.ring(settled.next_call.call_id)
        if settled is not None and settled.next_step is not None:
            bell.ring(call.run_id, settled.next_step)


def test_many_workers_carry_many_runs_and_nothing_is_lost_or_doubled(
    database: Database, make_database: Callable[[], Database]
) -> None:
    bell = Bell()
    runs = []
    for _ in range(THREADS):
        first = a_run(database)
        wish = RunWish(thread_id=first.thread_id)
        runs += [first, *(a_run(database, wish) for _ in range(RUNS_PER_THREAD - 1))]
        bell.ring(first.run_id, 1)
    pools = [make_database() for _ in range(SESSIONS)]
    with ThreadPoolExecutor(SESSIONS) as threads:
        carried = [
            threads.submit(work, pool, bell, WorkerId(f"wrk_{n}")) for n, pool in enumerate(pools)
        ]
        for future in carried:
            future.result(60)
    assert promote_runs(database, limit=10) == []
    assert violations(database) == []
    rows = query(database, "SELECT status, step, count(*) AS n FROM runs GROUP BY status, step")
    assert [tuple(row.values()) for row in rows] == [("completed", 2, len(runs))]
    [row] = query(
        database,
        "SELECT (SELECT count(*) FROM calls WHERE state = 'returned') AS calls,"
        " (SELECT count(*) FROM receipts) AS receipts, (SELECT count(*) FROM model_calls) AS asked",
    )
    assert tuple(row.values()) == (4 * len(runs), len(runs), 2 * len(runs))
