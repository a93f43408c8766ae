"""A living process gives back what it holds by the record and no code of it is at."""

import pytest

from models.calls import load_call, record_intent, start_read
from models.database import Database
from models.steps import claim_step, hand_back
from tasks.reconciling import Reconciler
from tests.factories import RunWish, a_run, a_tool
from tests.invariants import violations
from tests.models.story import call_ids, call_states, run_row
from tests.tasks.process import Process, a_process, asked, said
from umbel.contracts import CallId

LOOK = a_tool("look")
WRITE = a_tool("write", effect="mutation")


@pytest.fixture
def process(database: Database) -> Process:
    return a_process(database, LOOK, WRITE)


def test_a_forgotten_run_is_given_back_at_the_second_look(
    database: Database, process: Process
) -> None:
    run = a_run(database)
    assert claim_step(database, run.run_id, 1, process.worker) is not None
    reconciler = Reconciler(process.runtime)
    assert reconciler.look() == 0
    assert run_row(database, run.run_id)["work"] == "held"
    assert reconciler.look() == 1
    process.model.script.append(said())
    assert process.step(run.run_id) == "answer, 7 tok"
    assert violations(database) == []


def test_a_later_claim_of_the_same_step_is_another_row(
    database: Database, process: Process
) -> None:
    run = a_run(database)
    reconciler = Reconciler(process.runtime)
    for _ in range(3):
        claim = claim_step(database, run.run_id, 1, process.worker)
        assert claim is not None
        assert reconciler.look() == 0, "seen once"
        assert run_row(database, run.run_id)["holder"] == process.worker
        hand_back(database, claim, wait_seconds=0, detail="drain", is_failure=False)


def test_what_code_of_the_process_is_at_is_left_alone(database: Database, process: Process) -> None:
    run = a_run(database)
    reconciler = Reconciler(process.runtime)
    with process.runtime.carried.enter(run.run_id):
        assert claim_step(database, run.run_id, 1, process.worker) is not None
        assert [reconciler.look() for _ in range(3)] == [0, 0, 0]
        assert run_row(database, run.run_id)["work"] == "held"


def test_another_process_is_left_alone(database: Database, process: Process) -> None:
    run = a_run(database)
    other = a_process(database, LOOK)
    assert claim_step(database, run.run_id, 1, other.worker) is not None
    reconciler = Reconciler(process.runtime)
    assert [reconciler.look(), reconciler.look()] == [0, 0]


def test_a_forgotten_read_is_ready_and_a_forgotten_change_unknown(
    database: Database, process: Process
) -> None:
    run = a_run(database, RunWish(tools=(LOOK, WRITE), policy={"permission_mode": "full_access"}))
    process.model.script.append(asked(("look", "{}"), ("write", "{}")))
    process.step(run.run_id)
    look, write = (CallId(call) for call in call_ids(database, run.run_id))
    for call_id, start in ((look, start_read), (write, record_intent)):
        call = load_call(database, call_id)
        assert call is not None
        assert start(database, call, process.worker) is not None
    reconciler = Reconciler(process.runtime)
    reconciler.look()
    assert reconciler.look() == 2
    # Ready, unless the change was settled after it: then it need not start any more.
    states = call_states(database, run.run_id)
    assert states in (["ready", "unknown"], ["skipped", "unknown"])
    process.call(look)
    assert run_row(database, run.run_id)["reason"] == "unknown_outcome"
    assert violations(database) == []
