"""Who did what to a run, and a key that makes two commands one action."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from models.database import Database
from models.objections import explain_resume, explain_stop, explain_verify
from models.owner import OtherLimits, find_action, resume_run, steer_run, stop_run, verify_receipt
from models.records import load_spec
from tasks.resuming import other_limits
from tests.factories import OWNER, RunWish, a_run
from tests.models.story import (
    CHANGE,
    a_paused_run,
    beat,
    claimed,
    count,
    dispatched,
    fall_silent,
    made_unknown,
    query,
    run_row,
    started,
)
from umbel.contracts import Principal, RunId, ThreadId
from umbel.errors import Conflict, InvalidInput, NotFound


def events(database: Database, kind: str) -> list[dict[str, object]]:
    rows = query(database, "SELECT data FROM events WHERE kind = %(kind)s ORDER BY seq", kind=kind)
    return [row["data"] for row in rows]


def test_every_verb_says_who_did_it(database: Database) -> None:
    run_id = a_paused_run(database)
    resume_run(database, run_id, OWNER)
    steer_run(database, run_id, OWNER, "Use staging.", "append")
    stop_run(database, run_id, OWNER)
    assert events(database, "run.resumed") == [{"by": OWNER.user, "step": 1}]
    assert events(database, "run.steered") == [{"by": OWNER.user, "rev": 1, "mode": "append"}]
    assert events(database, "run.stopping") == [{"by": OWNER.user}]
    assert events(database, "run.cancelled") == [{"reason": "owner_stop"}]


def test_a_correction_sent_twice_under_one_key_is_one(database: Database) -> None:
    run_id = a_run(database).run_id
    with ThreadPoolExecutor(4) as pool:
        steered = list(
            pool.map(
                lambda _: steer_run(database, run_id, OWNER, "Go on.", "append", key="k"), range(8)
            )
        )
    [first] = [found for found in steered if found is not None]
    action = find_action(database, run_id, OWNER, "k")
    assert action is not None
    assert (action.kind, action.ref) == ("run.steered", first.steer_id)
    assert count(database, "steers") == 1
    assert steer_run(database, run_id, OWNER, "Go on.", "append", key="other") is not None


def test_a_late_repeat_neither_stops_nor_resumes_what_was_decided_since(database: Database) -> None:
    run_id = a_paused_run(database)
    assert resume_run(database, run_id, OWNER, key="r") == 1
    assert stop_run(database, run_id, OWNER, key="s") is not None
    assert resume_run(database, run_id, OWNER, key="r") is None
    assert resume_run(database, run_id, OWNER) == 1
    assert stop_run(database, run_id, OWNER, key="s") is None
    assert run_row(database, run_id)["status"] == "running"


def test_a_key_of_somebody_else_says_nothing(database: Database) -> None:
    run_id = a_paused_run(database)
    resume_run(database, run_id, OWNER, key="k")
    assert find_action(database, run_id, Principal(tenant="acme", user="eve"), "k") is None
    assert find_action(database, run_id, Principal(tenant="else", user=OWNER.user), "k") is None


@pytest.mark.parametrize("key", ["", " ", "k" * 256, "nul \x00"])
def test_what_is_no_key_is_refused(database: Database, key: str) -> None:
    with pytest.raises(InvalidInput):
        stop_run(database, a_run(database).run_id, OWNER, key=key)


def test_a_resume_may_set_other_limits_and_nothing_else(database: Database) -> None:
    run_id = a_paused_run(database)
    spec = load_spec(database, run_id)
    limits = other_limits(spec, {"tool_call_limit": 7, "iteration_cap": None})
    assert resume_run(database, run_id, OWNER, limits=limits) == 1
    after = load_spec(database, run_id)
    assert (after.policy.tool_call_limit, after.policy_rev) == (7, 1)
    assert after.policy == spec.policy.model_copy(update={"tool_call_limit": 7})
    [event] = events(database, "run.resumed")
    assert event["limits"] == {"tool_call_limit": 7}
    assert event["policy_sha"] == after.policy_sha != spec.policy_sha
    assert claimed(database, run_id).policy_rev == 1
    for wanted in ({"permission_mode": 1}, {"tool_call_limit": -1}):
        with pytest.raises(InvalidInput):
            other_limits(spec, wanted)
    assert other_limits(after, {"tool_call_limit": 7}) is None


def test_limits_made_from_another_policy_are_not_set(database: Database) -> None:
    run_id = a_paused_run(database)
    stale = OtherLimits(policy="{}", policy_was=b"x" * 32, changes={})
    assert resume_run(database, run_id, OWNER, limits=stale) is None
    assert run_row(database, run_id)["status"] == "paused"


def test_a_refused_resume_says_what_to_do_first(database: Database) -> None:
    beat(database)
    step = dispatched(database, CHANGE)
    with pytest.raises(Conflict, match="is running: there is nothing to resume"):
        explain_resume(database, step.run_id, OWNER)
    started(database, step.calls[0])
    fall_silent(database)
    made_unknown(database, step.calls[0])
    assert resume_run(database, step.run_id, OWNER) is None
    with pytest.raises(Conflict, match=step.calls[0]):
        explain_resume(database, step.run_id, OWNER)
    found = verify_receipt(
        database, step.run_id, step.calls[0], OWNER, "happened", "It is in the log."
    )
    assert found == 0
    with pytest.raises(Conflict, match="is settled: ann found: happened"):
        explain_verify(database, step.run_id, step.calls[0], OWNER)
    thread = ThreadId(run_row(database, step.run_id)["thread_id"])
    other = a_run(database, RunWish(thread_id=thread))
    with pytest.raises(Conflict, match=f"umbel runs stop {other.run_id}"):
        explain_resume(database, step.run_id, OWNER)


def test_a_receipt_that_is_none_or_not_unknown_is_named(database: Database) -> None:
    step = dispatched(database, CHANGE)
    with pytest.raises(NotFound, match="no such change was sent"):
        explain_verify(database, step.run_id, step.calls[0], OWNER)
    started(database, step.calls[0])
    with pytest.raises(Conflict, match="not reported yet"):
        explain_verify(database, step.run_id, step.calls[0], OWNER)


@pytest.mark.parametrize("text", ["Nothing.", "x" * 2001])
def test_a_finding_says_enough_and_not_too_much(database: Database, text: str) -> None:
    step = dispatched(database, CHANGE)
    with pytest.raises(InvalidInput, match="What you found"):
        verify_receipt(database, step.run_id, step.calls[0], OWNER, "happened", text)


def test_a_stop_of_a_stopped_run_is_what_was_wanted(database: Database) -> None:
    run_id = a_run(database).run_id
    stop_run(database, run_id, OWNER)
    explain_stop(database, run_id, OWNER)
    with pytest.raises(Conflict, match="nothing to stop"):
        explain_stop(database, a_paused_and_failed(database), OWNER)


def a_paused_and_failed(database: Database) -> RunId:
    run_id = a_paused_run(database)
    database.run(("UPDATE runs SET status = 'failed' WHERE id = %(id)s", {"id": run_id}))
    return run_id
