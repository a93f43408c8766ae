"""Resume: of many racers one wins, and only what may go on goes on."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from loop.outcome import Unknown
from models.calls import load_call, record_intent, settle
from models.database import Database
from models.owner import resume_run
from tests.factories import OWNER, RunWish, a_run
from tests.invariants import violations
from tests.models.story import (
    CHANGE,
    ME,
    a_paused_run,
    change,
    dispatched,
    event_kinds,
    run_row,
)
from umbel.contracts import Principal, ThreadId


def test_of_twenty_resumes_at_once_exactly_one_wins(database: Database) -> None:
    run_id = a_paused_run(database)
    fence = run_row(database, run_id)["fence"]
    with ThreadPoolExecutor(8) as pool:
        steps = list(pool.map(lambda _: resume_run(database, run_id, OWNER), range(20)))
    assert sorted(step is not None for step in steps) == [False] * 19 + [True]
    row = run_row(database, run_id)
    assert (row["status"], row["work"], row["fence"]) == ("running", "ready", fence + 1)
    assert event_kinds(database, run_id).count("run.resumed") == 1
    assert violations(database) == []


@pytest.mark.parametrize("status", ["running", "completed"])
def test_only_a_run_that_people_may_move_is_resumed(database: Database, status: str) -> None:
    run_id = a_paused_run(database)
    change(
        database,
        "UPDATE runs SET status = %(status)s, reason = NULL, answer = 'x',"
        " settled_at = CASE WHEN %(status)s = 'completed' THEN now() END WHERE id = %(id)s",
        status=status,
        id=run_id,
    )
    assert resume_run(database, run_id, OWNER) is None


def test_another_owner_and_another_tenant_resume_nothing(database: Database) -> None:
    run_id = a_paused_run(database)
    assert resume_run(database, run_id, Principal(tenant=OWNER.tenant, user="else")) is None
    assert resume_run(database, run_id, Principal(tenant="else", user=OWNER.user)) is None


def test_a_run_with_an_unknown_outcome_is_not_resumed(database: Database) -> None:
    step = dispatched(database, CHANGE)
    call = load_call(database, step.calls[0])
    assert call is not None
    proof = record_intent(database, call, ME)
    assert proof is not None
    settle(database, proof, Unknown("?"), "")
    assert run_row(database, step.run_id)["status"] == "paused"
    assert resume_run(database, step.run_id, OWNER) is None


def test_a_thread_that_is_occupied_by_another_run_stays_so(database: Database) -> None:
    run_id = a_paused_run(database)
    thread = ThreadId(run_row(database, run_id)["thread_id"])
    other = a_run(database, RunWish(thread_id=thread))
    assert resume_run(database, run_id, OWNER) is None
    assert run_row(database, other.run_id)["status"] == "running"
