"""A source that changes while workers claim, refresh and answer: the last word counts."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from loop.decision import Answer
from loop.outcome import Returned
from models.calls import load_call, settle, start_read
from models.database import Database
from models.records import load_record, load_spec
from models.refreshing import begin_refresh, look, stay
from models.steps import Claim, claim_step, commit_answer, hand_back
from tasks.refreshing import plan_refreshes
from tests.factories import RunWish, a_run, a_tool
from tests.invariants import violations
from tests.models.source_story import NOTES, after_reading, notice
from tests.models.story import an_exchange, claimed, query, run_row
from umbel.contracts import CallId, RunId, WorkerId

CHANGES = 3
"""More for one step would be shown as they are."""
LONGEST_SECONDS = 60


@dataclass
class Place:
    """One run, the file that it has read, and what happens to both."""

    database: Database
    run_id: RunId
    chance: random.Random
    revision: int = 1
    told_last: bool = False
    """The run has heard of the last change."""
    errors: list[BaseException] = field(default_factory=list)

    def is_over(self) -> bool:
        return bool(run_row(self.database, self.run_id)["status"] == "completed")

    def work(self, worker: WorkerId) -> None:
        """Carry the run's step as tasks/step.py does, until it is over."""
        while not self.is_over():
            claim = claim_step(self.database, self.run_id, 2, worker)
            if claim is None:
                continue
            if not (self.refresh(claim) if claim.is_stale else self.answer(claim)):
                hand_back(self.database, claim, wait_seconds=0, detail="", is_failure=False)

    def refresh(self, claim: Claim) -> bool:
        affected = look(self.database, claim)
        refreshes = plan_refreshes(affected, load_spec(self.database, self.run_id))
        if refreshes:
            return begin_refresh(self.database, claim, refreshes) is not None
        return stay(self.database, claim, waits=bool(affected)) is not None

    def answer(self, claim: Claim) -> bool:
        """What the request shows is the answer."""
        spec = load_spec(self.database, self.run_id)
        record = load_record(self.database, spec, 2, source_rev=claim.source_rev)
        text = record.steps[0].calls[0].view
        return commit_answer(self.database, claim, an_exchange(), Answer(text)) is not None

    def read(self, worker: WorkerId) -> None:
        """Run the refreshes, as tool workers do, until the run is over."""
        while not self.is_over():
            for row in query(self.database, "SELECT id FROM calls WHERE state = 'ready'"):
                call = load_call(self.database, CallId(row["id"]))
                proof = start_read(self.database, call, worker) if call else None
                if proof is not None:
                    now = str(self.revision)
                    settle(self.database, proof, Returned(now), now, sources={NOTES: now})

    def edit(self) -> None:
        for _ in range(CHANGES):
            for _ in range(self.chance.randrange(3)):
                query(self.database, "SELECT 1")
            self.revision += 1
            self.told_last = bool(notice(self.database, str(self.revision)))


@contextmanager
def at_once(place: Place, *jobs: threading.Thread) -> Iterator[None]:
    for job in jobs:
        job.start()
    yield
    for job in jobs:
        job.join(LONGEST_SECONDS)
        assert not job.is_alive(), (
            f"nothing moves any more: {run_row(place.database, place.run_id)}"
        )


def doing(place: Place, work: object, *arguments: object) -> threading.Thread:
    def run() -> None:
        try:
            work(*arguments)  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001 - told by the test
            place.errors.append(error)

    return threading.Thread(target=run)


@pytest.mark.parametrize("seed", range(8))
def test_the_answer_is_from_the_last_state_that_the_run_has_heard_of(
    database: Database, seed: int
) -> None:
    run = a_run(database, RunWish(tools=(a_tool("look"),)))
    after_reading(database, claim=claimed(database, run.run_id))
    place = Place(database, run.run_id, random.Random(seed))
    workers = [doing(place, place.work, WorkerId(f"wrk_{n}")) for n in (1, 2)]
    readers = [doing(place, place.read, WorkerId(f"wrk_{n}")) for n in (3, 4)]
    with at_once(place, doing(place, place.edit), *workers, *readers):
        pass
    assert place.errors == []
    answer = run_row(database, run.run_id)["answer"].strip('v"')
    if place.told_last:
        assert answer == str(place.revision), "it had heard of the last change"
    assert [broken for broken in violations(database) if "open" not in str(broken)] == []
    assert run_row(database, run.run_id)["calls_used"] == 1
