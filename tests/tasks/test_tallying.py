"""What a process counts, and how its counts get into the record."""

from collections.abc import Callable
from contextlib import suppress
from threading import Thread

import pytest

from loop.outcome import Unknown
from loop.response import Failure, ModelTurn, Usage
from models.calls import free_own_read, settle
from models.database import Database
from models.owner import steer_run, stop_run
from models.tallies import add_tallies, load_tallies
from tasks.reconciling import Reconciler
from tasks.tally_writer import MAX_LABEL_SETS, TallyWriter
from tasks.tallying import Meter
from tests.factories import OWNER, RunWish, a_run, a_tool
from tests.models.story import CHANGE, READ, change, claimed, dispatched, run_row, started
from tests.tasks.process import Process, a_process, asked, said
from tests.worker_processes import wait_until
from umbel.agent_settings import ModelSettings
from umbel.contracts import RunId
from umbel.errors import InvariantBroken, Unavailable
from umbel.tallies import (
    COST,
    FENCE_REJECTIONS,
    OTHER,
    QUEUE_WAIT,
    REDELIVERED,
    RUNS_SETTLED,
    STEP_DURATION,
    UNKNOWN_OUTCOMES,
    Series,
    Tallies,
)

NOWHERE = "postgresql+psycopg://nobody@127.0.0.1:1/none"
PRICES = ModelSettings(price_input_per_million=10, price_output_per_million=20)


def counted(process: Process) -> dict[tuple[str, ...], float]:
    """Counters of the process as (metric, label values…), without its histograms' parts."""
    taken = process.runtime.meter.tallies.take()
    return {(s.metric, *s.values): n for s, n in taken.items() if not s.part}


def wait_counts(process: Process) -> dict[str, float]:
    """How many waits and durations were observed, by metric."""
    found: dict[str, float] = {}
    for series, n in process.runtime.meter.tallies.take().items():
        if series.part not in ("", "sum"):
            name = f"{series.metric}/{','.join(series.values)}"
            found[name] = found.get(name, 0) + n
    return found


CANCELLED = (RUNS_SETTLED.name, "cancelled", "owner_stop")
UNKNOWN = (RUNS_SETTLED.name, "paused", "unknown_outcome")


def test_what_an_owner_ends_is_counted_with_it(database: Database) -> None:
    for _ in range(2):
        run_id = a_run(database).run_id
        for _ in range(2):
            stop_run(database, run_id, OWNER)
    step = dispatched(database, READ, CHANGE)
    read, sent = (started(database, call_id) for call_id in step.calls)
    settle(database, sent, Unknown("gone"), "")
    free_own_read(database, read)
    steer_run(database, step.run_id, OWNER, "Look elsewhere.", "redirect")
    assert run_row(database, step.run_id)["reason"] == "unknown_outcome"
    stop_run(database, claimed(database).run_id, OWNER)  # ends later, with its holder
    assert load_tallies(database) == {
        Series(CANCELLED[0], CANCELLED[1:]): 2.0,
        Series(UNKNOWN[0], UNKNOWN[1:]): 1.0,
    }


@pytest.mark.parametrize("way", ["stale reply", "unexpected error", "lost claim"])
def test_a_run_that_ends_as_it_is_given_back_is_counted_once(database: Database, way: str) -> None:
    process = a_process(database)
    run_id = a_run(database).run_id

    def stopped(_: object) -> ModelTurn:
        stop_run(database, run_id, OWNER)
        if way == "unexpected error":
            raise RuntimeError
        return said()

    process.model.script.append(stopped)
    if way == "lost claim":
        claimed(database, run_id, worker=process.worker)
        stop_run(database, run_id, OWNER)
        reconciler = Reconciler(process.runtime)
        assert [reconciler.look() for _ in range(3)] == [0, 1, 0]
    else:
        with suppress(RuntimeError):
            process.step(run_id)
    assert run_row(database, run_id)["status"] == "cancelled"
    assert counted(process)[CANCELLED] == 1
    assert load_tallies(database) == {}


def test_a_change_that_its_worker_has_forgotten_is_counted_with_the_pause(
    database: Database,
) -> None:
    process = a_process(database)
    step = dispatched(database, CHANGE)
    started(database, step.calls[0], process.worker)
    reconciler = Reconciler(process.runtime)
    assert [reconciler.look() for _ in range(3)] == [0, 1, 0]
    assert counted(process) == {UNKNOWN: 1, (UNKNOWN_OUTCOMES.name,): 1}


def test_increments_are_taken_once_and_summed() -> None:
    tallies = Tallies()
    tallies.add(REDELIVERED, "a")
    tallies.add(REDELIVERED, "a", n=2)
    tallies.add(COST, "m", n=0.25)
    assert tallies.take() == {
        Series(REDELIVERED.name, ("a",)): 3.0,
        Series(COST.name, ("m",)): 0.25,
    }
    assert tallies.take() == {}


def test_a_duration_is_in_the_first_bucket_that_holds_it() -> None:
    tallies = Tallies()
    for seconds in (0.01, 0.011, 5000.0, -1.0):
        tallies.observe(QUEUE_WAIT, seconds, "q")
    assert tallies.take() == {
        Series(QUEUE_WAIT.name, ("q",), "0.01"): 2.0,
        Series(QUEUE_WAIT.name, ("q",), "0.05"): 1.0,
        Series(QUEUE_WAIT.name, ("q",), "+Inf"): 1.0,
        Series(QUEUE_WAIT.name, ("q",), "sum"): pytest.approx(5000.021),
    }


def test_nothing_is_lost_while_others_count() -> None:
    tallies, taken = Tallies(), 0.0

    def count() -> None:
        for _ in range(20_000):
            tallies.add(FENCE_REJECTIONS)

    threads = [Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken += sum(tallies.take().values())
    assert taken + sum(tallies.take().values()) == 80_000


def test_what_cannot_be_written_waits_for_the_next_time(database: Database) -> None:
    tallies = Tallies()
    away, there = Database(NOWHERE, role="t", pool_size=1), database
    writer = TallyWriter(tallies, away)
    for _ in range(2):
        tallies.add(FENCE_REJECTIONS)
        with pytest.raises(Unavailable):
            writer.write()
    writer._database = there
    writer.write()
    writer.write()
    assert load_tallies(there) == {Series(FENCE_REJECTIONS.name): 2.0}


def test_a_process_that_ends_without_postgresql_ends_all_the_same() -> None:
    tallies = Tallies()
    tallies.add(FENCE_REJECTIONS)
    TallyWriter(tallies, Database(NOWHERE, role="t", pool_size=1)).finish()


def test_counts_are_written_by_themselves(database: Database) -> None:
    tallies = Tallies()
    TallyWriter(tallies, database).start(0.02)
    tallies.add(FENCE_REJECTIONS)
    wait_until(lambda: len(load_tallies(database)) == 1, 5, "the count is in the record")


def test_label_sets_beyond_the_bound_are_counted_as_other(
    database: Database, make_database: Callable[[], Database]
) -> None:
    tallies = Tallies()
    writer = TallyWriter(tallies, database)
    tallies.add(COST, "m0")
    writer.write()
    # Meanwhile another process fills it up.
    add_tallies(
        make_database(), {Series(COST.name, (f"x{n}",)): 1.0 for n in range(MAX_LABEL_SETS - 1)}
    )
    for model in ("m0", "m1", "m2", "x7"):
        tallies.add(COST, model)
    tallies.add(REDELIVERED, "m1")
    writer.write()
    stored = load_tallies(database)
    assert stored[Series(COST.name, ("m0",))] == 2.0
    assert stored[Series(COST.name, ("x7",))] == 2.0
    assert stored[Series(COST.name, (OTHER,))] == 2.0
    assert Series(COST.name, ("m1",)) not in stored
    assert stored[Series(REDELIVERED.name, ("m1",))] == 1.0, "each metric has a bound of its own"


def test_a_model_call_counts_its_tokens_and_its_cost() -> None:
    meter = Meter(settings_of={"m": PRICES}.get)  # type: ignore[arg-type]  # only m is asked
    usage = Usage(input_tokens=1000, output_tokens=500, cached_input_tokens=0, reasoning_tokens=9)
    meter.model_replied("m", ModelTurn(text="Hello.", usage=usage))
    found = {(s.metric, *s.values): n for s, n in meter.tallies.take().items()}
    assert found == {
        ("umbel_model_calls_total", "m", "ok"): 1.0,
        ("umbel_tokens_total", "m", "input"): 1000.0,
        ("umbel_tokens_total", "m", "output"): 500.0,
        ("umbel_tokens_total", "m", "reasoning"): 9.0,
        ("umbel_cost_usd_total", "m"): pytest.approx(0.02),
    }


@pytest.mark.parametrize(
    ("usage", "cause"),
    [
        (Usage(input_tokens=1, output_tokens=1), "no_price"),
        (Usage(input_tokens=1), "no_usage"),
        (Usage(), "no_usage"),
    ],
)
def test_a_cost_that_nobody_knows_is_said_to_be_unknown(usage: Usage, cause: str) -> None:
    meter = Meter()
    failure = Failure(error_class="rate_limit", is_retryable=True)
    meter.model_replied("m", ModelTurn(usage=usage, failure=failure))
    found = {(s.metric, *s.values) for s in meter.tallies.take()}
    assert ("umbel_model_calls_unpriced_total", "m", cause) in found
    assert ("umbel_model_calls_total", "m", "rate_limit") in found
    assert not [key for key in found if key[0] == COST.name]


def test_cached_input_has_a_price_of_its_own() -> None:
    prices = PRICES.model_copy(update={"price_cached_input_per_million": 1.0})
    assert PRICES.cost_usd(1_000_000, 0, 400_000) == pytest.approx(10.0)
    assert prices.cost_usd(1_000_000, 0, 400_000) == pytest.approx(6.4)
    assert prices.cost_usd(100, 0, 400) == pytest.approx(0.0001), "never more than there was"


def test_a_run_is_counted_when_it_completes(process: Process, database: Database) -> None:
    run = a_run(database)
    process.model.script.append(said())
    process.step(run.run_id)
    assert counted(process) == {
        ("umbel_runs_settled_total", "completed", ""): 1.0,
        ("umbel_model_calls_total", "scripted", "ok"): 1.0,
        ("umbel_model_calls_unpriced_total", "scripted", "no_usage"): 1.0,
    }


def test_a_message_that_comes_again_is_counted_and_changes_nothing_else(
    process: Process, database: Database
) -> None:
    run = a_run(database)
    process.model.script.append(said())
    process.step(run.run_id)
    counted(process)
    process.step(run.run_id)
    assert counted(process) == {("umbel_redelivered_total", "umbel.loop.step"): 1.0}


def test_a_run_that_pauses_or_fails_is_counted_with_its_reason(
    process: Process, database: Database
) -> None:
    paused, failed = a_run(database), a_run(database)
    no = Failure(error_class="auth", is_retryable=False)
    process.model.script.append(ModelTurn(failure=no))
    process.step(paused.run_id)
    change(
        database,
        "UPDATE run_specs SET policy = '[]', policy_sha = sha256('[]') WHERE run_id = %(id)s",
        id=failed.run_id,
    )
    with pytest.raises(InvariantBroken):
        process.step(failed.run_id)
    found = counted(process)
    assert found["umbel_runs_settled_total", "paused", "credentials"] == 1.0
    assert found["umbel_runs_settled_total", "failed", "corrupt_record"] == 1.0


def test_a_reply_that_comes_too_late_is_counted_as_fenced_out(
    process: Process, database: Database
) -> None:
    run = a_run(database)

    def while_taken_over(_control: object) -> ModelTurn:
        change(database, "UPDATE runs SET fence = fence + 1, holder = 'wrk_x'")
        return said()

    process.model.script.append(while_taken_over)
    process.step(run.run_id)
    found = counted(process)
    assert found["umbel_fence_rejections_total",] == 1.0
    assert ("umbel_runs_settled_total", "completed", "") not in found


def test_an_outcome_that_is_unknown_is_counted_with_the_pause_it_brings(
    database: Database,
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    tool = a_tool("send", die, effect="mutation")
    process = a_process(database, tool)
    run = a_run(database, RunWish(tools=(tool,), policy={"permission_mode": "full_access"}))
    process.model.script.append(asked(("send", "{}")))
    process.step(run.run_id)
    counted(process)
    process.carry_all()
    assert counted(process) == {
        ("umbel_unknown_outcomes_total",): 1.0,
        ("umbel_runs_settled_total", "paused", "unknown_outcome"): 1.0,
    }


def test_steps_and_calls_tell_how_long_they_waited_and_took(database: Database) -> None:
    tool = a_tool("look")
    process = a_process(database, tool)
    run = a_run(database, RunWish(tools=(tool,)))
    process.model.script.extend([asked(("look", "{}")), said()])
    process.step(run.run_id)
    process.carry_all()
    assert wait_counts(process) == {
        "umbel_queue_wait_seconds/umbel.loop": 2.0,
        "umbel_queue_wait_seconds/umbel.tools": 1.0,
        "umbel_step_duration_seconds/": 2.0,
        "umbel_call_duration_seconds/look": 1.0,
    }


def test_the_wait_counts_from_when_the_step_became_ready(
    process: Process, database: Database
) -> None:
    run = a_run(database)
    change(database, "UPDATE events SET at = at - interval '100 seconds'")
    process.model.script.append(said())
    process.step(RunId(run.run_id))
    taken = process.runtime.meter.tallies.take()
    assert 100 <= taken[Series(QUEUE_WAIT.name, ("umbel.loop",), "sum")] < 110
    assert taken[Series(STEP_DURATION.name, (), "sum")] < 10
