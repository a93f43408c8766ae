"""The step body: safe to deliver twice, and it never leaves a run held by a worker that is idle."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from psycopg.errors import UniqueViolation

from loop.response import Failure, ModelTurn
from models.database import Database
from models.sweeping import Room, due_steps, take_over_runs
from providers.contract import AbortReason, StreamControl
from tests.factories import RunWish, a_run, a_tool
from tests.invariants import violations
from tests.models.story import (
    DEAD_AFTER,
    attempts,
    call_ids,
    call_states,
    change,
    count,
    event_kinds,
    fall_silent,
    query,
    run_row,
)
from tests.tasks.process import Process, a_process, asked, said
from umbel.errors import InvariantBroken, Unavailable

LOOK = a_tool("look")
WRITE = a_tool("write", effect="mutation")


class Killed(BaseException):
    """What a killed greenlet meets: not an Exception."""


def test_an_answer_completes_the_run(database: Database, process: Process) -> None:
    run = a_run(database)
    process.model.script.append(said("Hello."))
    assert process.step(run.run_id) == "answer, 7 tok"
    assert run_row(database, run.run_id)["answer"] == "Hello."
    assert violations(database) == []
    assert process.runtime.locks.holders([run.run_id]) == {}


def test_the_same_message_twice_does_the_work_once(database: Database, process: Process) -> None:
    run = a_run(database)
    process.model.script.append(said())
    process.step(run.run_id)
    assert process.step(run.run_id) == "nothing to do"
    assert len(process.model.requests) == 1
    assert violations(database) == []


def test_the_same_message_fifty_times_at_once_asks_the_model_once(
    database: Database, process: Process
) -> None:
    run = a_run(database)
    speaks, may_end = Event(), Event()

    def slowly(_: StreamControl) -> ModelTurn:
        speaks.set()
        may_end.wait(10)
        return said()

    process.model.script.append(slowly)
    with ThreadPoolExecutor(50) as pool:
        first = pool.submit(process.step, run.run_id)
        speaks.wait(10)
        others = [pool.submit(process.step, run.run_id) for _ in range(49)]
        assert {one.result(10) for one in others} == {"carried by this worker already"}
        may_end.set()
        assert first.result(10) == "answer, 7 tok"
    assert attempts(database, run.run_id) == [(1, "closed", "answer")]


def test_calls_are_rung_and_their_results_bring_the_next_step(database: Database) -> None:
    process = a_process(database, LOOK)
    run = a_run(database, RunWish(tools=(LOOK,)))
    process.model.script.extend([asked(("look", '{"a":1}'), ("look", '{"a":2}')), said("Seen.")])
    assert process.step(run.run_id) == "dispatch 2, 9 tok"
    assert process.bell.calls == call_ids(database, run.run_id)
    process.carry_all()
    assert run_row(database, run.run_id)["status"] == "completed"
    shown = [getattr(message, "text", "") for message in process.model.requests[1].messages]
    assert shown[-2:] == ['{"a":1}', '{"a":2}']
    assert violations(database) == []


def test_a_run_with_every_message_doubled_ends_the_same(database: Database) -> None:
    process = a_process(database, LOOK, WRITE)
    wish = RunWish(tools=(LOOK, WRITE), policy={"permission_mode": "full_access"})
    run = a_run(database, wish)
    process.model.script.extend([asked(("look", "{}"), ("write", "{}")), said("Done.")])
    for _ in range(2):
        process.step(run.run_id)
    for call_id in call_ids(database, run.run_id):
        for _ in range(2):
            process.call(call_id)
    for _ in range(2):
        process.step(run.run_id, 2)
        process.step(run.run_id, 1)
    assert run_row(database, run.run_id)["status"] == "completed"
    assert (count(database, "receipts"), count(database, "deliveries")) == (1, 1)
    assert violations(database) == []


def test_the_next_step_rung_by_this_one_is_not_taken_for_a_double(database: Database) -> None:
    """A ring is heard at once in the same process, while the ringer is still ringing."""
    process = a_process(database, LOOK)
    run = a_run(database, RunWish(tools=(LOOK,)))
    process.model.script.extend([asked(("no_such_tool", "{}")), said("Then not.")])
    heard = []
    process.bell.on_step = lambda run_id, step: heard.append(process.step(run_id, step))
    process.step(run.run_id)
    assert heard == ["answer, 7 tok"]
    assert run_row(database, run.run_id)["status"] == "completed"


def test_an_unexpected_error_hands_the_run_back_and_a_lasting_one_fails_it(
    database: Database, process: Process
) -> None:
    run = a_run(database)
    for number in range(5):
        process.model.script.append(RuntimeError("a bug"))
        with pytest.raises(RuntimeError):
            process.step(run.run_id)
        row = run_row(database, run.run_id)
        assert (row["work"], row["status"]) == (
            ("ready", "running") if number < 4 else ("none", "failed")
        )
        change(database, "UPDATE runs SET not_before = now()")
    assert violations(database) == []


def test_a_broken_record_fails_the_run_at_once(database: Database, process: Process) -> None:
    run = a_run(database)
    process.model.script.append(InvariantBroken("odd"))
    with pytest.raises(InvariantBroken):
        process.step(run.run_id)
    assert run_row(database, run.run_id)["reason"] == "corrupt_record"


def test_an_outage_never_fails_a_run(database: Database, process: Process) -> None:
    run = a_run(database)
    for _ in range(8):
        process.model.script.append(Unavailable("PostgreSQL does not answer"))
        with pytest.raises(Unavailable):
            process.step(run.run_id)
        assert run_row(database, run.run_id)["work"] == "ready", "only time is lost"
        change(database, "UPDATE runs SET not_before = now()")


def test_a_step_that_raises_before_its_claim_comes_back_more_and_more_seldom(
    database: Database, process: Process
) -> None:
    run_id = a_run(database).run_id
    taken = "INSERT INTO events (run_id, seq, kind, fence) VALUES (%(id)s, 2, 'x', 0)"
    change(database, taken, id=run_id)  # the number of the claim's event
    waits = []
    for _ in range(12):
        with pytest.raises(UniqueViolation):
            process.step(run_id)
        assert process.step(run_id) == "nothing to do"
        assert due_steps(database, Room(10, 0.0, is_empty=True)) == []
        [row] = query(database, "SELECT extract(epoch FROM not_before - now()) AS s FROM runs")
        waits.append(float(row["s"]))
        change(database, "UPDATE runs SET not_before = now()")
    doubled = [min(600, 5 * 2**n) for n in range(12)]
    assert waits == pytest.approx(doubled, rel=0.3), "of which the test itself takes a little"
    change(database, "DELETE FROM events WHERE seq = 2")
    process.model.script.append(said())
    assert process.step(run_id) == "answer, 7 tok"
    assert run_row(database, run_id)["rings"] == 0


def test_a_step_that_is_killed_in_a_living_process_leaves_its_run_to_others(
    database: Database, process: Process
) -> None:
    """A greenlet can be killed alone (`revoke` with `terminate`): the process still beats."""
    run = a_run(database)
    process.model.script.append(Killed())
    with pytest.raises(Killed):
        process.step(run.run_id)
    assert run_row(database, run.run_id)["work"] == "ready", "held for ever by a living worker"


@pytest.mark.parametrize(("reason", "cause"), [("drain", "draining"), ("lease_lost", "lost")])
def test_a_stream_that_is_given_up_is_booked_and_the_run_handed_back(
    database: Database, process: Process, reason: AbortReason, cause: str
) -> None:
    run = a_run(database)

    def watched(control: StreamControl) -> ModelTurn:
        if cause == "draining":
            process.runtime.draining.set()
        else:
            process.lost[0] = True
        assert control.watch() == reason
        control.handle.abort(reason)
        failure = Failure(error_class="aborted", is_retryable=False)
        return ModelTurn(failure=failure)

    process.model.script.append(watched)
    assert process.step(run.run_id) == f"handed back: {reason}"
    row = run_row(database, run.run_id)
    assert (row["work"], row["attempts"], row["failures"]) == ("ready", 0, 0)
    assert attempts(database, run.run_id) == [(1, "closed", "discard")]
    assert violations(database) == []


def test_a_retryable_failure_waits_and_then_asks_again(
    database: Database, process: Process
) -> None:
    run = a_run(database)
    busy = Failure(error_class="rate_limit", is_retryable=True, retry_after_seconds=30.0)
    process.model.script.extend([ModelTurn(failure=busy), said()])
    assert process.step(run.run_id) == "retry provider, unknown tok"
    assert process.step(run.run_id) == "nothing to do"
    change(database, "UPDATE runs SET not_before = now()")
    assert process.step(run.run_id) == "answer, 7 tok"


def test_a_zombie_books_what_it_spent_and_writes_nothing_else(
    database: Database, make_process: Callable[[], Process]
) -> None:
    zombie, heir = make_process(), make_process()
    run = a_run(database)

    def frozen_meanwhile(_: StreamControl) -> ModelTurn:
        fall_silent(database)
        [taken] = take_over_runs(database, dead_after_seconds=DEAD_AFTER, limit=10)
        assert taken.is_ready
        heir.model.script.append(said("The heir."))
        heir.step(run.run_id)
        return said("The zombie.")

    zombie.model.script.append(frozen_meanwhile)
    assert zombie.step(run.run_id) == "fenced out, usage booked"
    assert run_row(database, run.run_id)["answer"] == "The heir."
    assert attempts(database, run.run_id) == [(1, "closed", "discard"), (2, "closed", "answer")]
    assert violations(database) == []
    assert not zombie.bell.steps


def test_a_correction_while_the_model_speaks_makes_its_reply_stale(
    database: Database, process: Process
) -> None:
    run = a_run(database)

    def corrected(_: StreamControl) -> ModelTurn:
        change(database, "UPDATE runs SET steer_rev = steer_rev + 1")
        return said("Old.")

    process.model.script.extend([corrected, said("New.")])
    assert process.step(run.run_id) == "fenced out, usage booked"
    process.carry_all()
    assert run_row(database, run.run_id)["answer"] == "New."
    assert violations(database) == []


def test_a_stop_while_the_model_speaks_ends_the_run(database: Database, process: Process) -> None:
    run = a_run(database)

    def stopped(_: StreamControl) -> ModelTurn:
        change(database, "UPDATE runs SET stop_at = now(), status = 'cancelling'")
        return said("Too late.")

    process.model.script.append(stopped)
    process.step(run.run_id)
    row = run_row(database, run.run_id)
    assert (row["status"], row["answer"]) == ("cancelled", None)
    assert violations(database) == []
    process.carry_all()


def test_an_answer_rings_for_the_next_run_of_the_thread(
    database: Database, process: Process
) -> None:
    first = a_run(database)
    second = a_run(database, RunWish(thread_id=first.thread_id))
    process.model.script.extend([said("One."), said("Two.")])
    process.step(first.run_id)
    assert process.bell.steps == [(second.run_id, 1)]
    process.carry_all()
    assert run_row(database, second.run_id)["answer"] == "Two."


def test_a_decision_that_cannot_be_applied_is_stored_and_applied_by_the_next_claim(
    database: Database, process: Process
) -> None:
    run = a_run(database)
    change(database, "ALTER TABLE deliveries ADD CONSTRAINT for_now CHECK (false)")
    process.model.script.append(said("Paid for."))
    try:
        with pytest.raises(InvariantBroken, match="for_now"):
            process.step(run.run_id)
    finally:
        change(database, "ALTER TABLE deliveries DROP CONSTRAINT for_now")
    assert attempts(database, run.run_id) == [(1, "closed", None)]
    [row] = query(database, "SELECT total_tokens FROM model_calls")
    assert row["total_tokens"] == 7, "spend is never lost"


def test_calls_beyond_the_parallel_limit_wait_their_turn(database: Database) -> None:
    process = a_process(database, LOOK)
    run = a_run(database, RunWish(tools=(LOOK,), policy={"parallel": 2}))
    process.model.script.extend([asked(*[("look", "{}")] * 5), said()])
    process.step(run.run_id)
    assert call_states(database, run.run_id) == ["ready"] * 2 + ["planned"] * 3
    assert len(process.bell.calls) == 2
    process.carry_all()
    assert run_row(database, run.run_id)["status"] == "completed"
    assert event_kinds(database, run.run_id).count("call.returned") == 5


def test_a_ready_run_under_the_lock_of_a_dead_worker_is_carried(
    database: Database, process: Process
) -> None:
    run = a_run(database)
    process.runtime.locks.acquire(run.run_id, "a worker that died after its commit")
    process.model.script.append(said())
    assert process.step(run.run_id) == "answer, 7 tok"


def test_a_held_run_under_the_lock_of_its_holder_is_left_alone(
    database: Database, process: Process
) -> None:
    run = a_run(database)
    process.runtime.locks.acquire(run.run_id, "other")
    change(
        database,
        "UPDATE runs SET work = 'held', holder = 'other' WHERE id = %(run)s",
        run=run.run_id,
    )
    assert process.step(run.run_id) == "held by another worker"
    assert process.model.requests == []


def test_a_model_that_never_asks_properly_is_corrected_twice_and_then_the_run_pauses(
    database: Database, process: Process
) -> None:
    run = a_run(database, RunWish(tools=(LOOK,)))
    for step in (1, 2, 3):
        process.model.script.append(asked(("lok", "{}")))
        process.step(run.run_id, step)
    row = run_row(database, run.run_id)
    assert (row["status"], row["reason"], row["step"]) == ("paused", "repeated_failure", 3)
    assert violations(database) == []


def test_a_call_that_can_run_makes_the_earlier_corrections_forgotten(
    database: Database, process: Process
) -> None:
    run = a_run(database, RunWish(tools=(LOOK,)))
    process.model.script.extend(
        [asked(("lok", "{}")), asked(("lok", "{}")), asked(("lok", "{}"), ("look", "{}"))]
    )
    for step in (1, 2, 3):
        process.step(run.run_id, step)
    assert run_row(database, run.run_id)["corrections"] == 0
    assert run_row(database, run.run_id)["status"] == "running"
