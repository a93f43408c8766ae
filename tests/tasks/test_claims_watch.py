"""A stream hears that its run was stopped, corrected, or taken by another worker."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import fakeredis
import pytest

from locks.wake_ups import WakeUpListener, WakeUps
from loop.response import Failure, ModelTurn, Usage
from models.database import Database
from models.owner import steer_run, stop_run
from models.records import RunSpec, SpecCache
from models.steps import Claim
from providers.contract import AbortReason, StreamControl, StreamHandle
from tasks.claims_watch import ClaimsWatch
from tests.factories import OWNER, a_run
from tests.models.story import attempts, change, claimed, event_kinds, run_row
from tests.tasks.process import a_process, said
from tests.worker_processes import wait_until
from umbel.contracts import RunId


def stopped(database: Database, run_id: RunId) -> None:
    stop_run(database, run_id, OWNER)


def corrected(database: Database, run_id: RunId) -> None:
    steer_run(database, run_id, OWNER, "Use staging.", "redirect")


def added_to(database: Database, run_id: RunId) -> None:
    steer_run(database, run_id, OWNER, "And below.", "append")


def taken(database: Database, run_id: RunId) -> None:
    change(
        database,
        "UPDATE runs SET fence = fence + 1, holder = NULL, work = 'ready' WHERE id = %(id)s",
        id=run_id,
    )


EVENTS = [(stopped, "stop"), (corrected, "steer"), (taken, "lease_lost"), (added_to, None)]


@pytest.mark.parametrize(("event", "reason"), EVENTS)
def test_news_of_the_record_end_a_stream(
    database: Database, event: Callable[[Database, RunId], None], reason: AbortReason | None
) -> None:
    watch = ClaimsWatch(database, look_seconds=0.0)
    claim = claimed(database)
    with watch.watching(claim, StreamHandle()):
        assert watch.news(claim) is None
        event(database, claim.run_id)
        assert watch.news(claim) == reason


def test_one_look_serves_all_streams_of_the_process(database: Database) -> None:
    watch = ClaimsWatch(database, look_seconds=0.0)
    claims: list[Claim] = [claimed(database) for _ in range(3)]
    with ExitStack() as stack:
        for claim in claims:
            stack.enter_context(watch.watching(claim, StreamHandle()))
        for claim in claims:
            stop_run(database, claim.run_id, OWNER)
        assert watch.news(claims[0]) == "stop"
        watch._look_seconds = 3600.0
        assert [watch.news(claim) for claim in claims[1:]] == ["stop", "stop"]


def test_what_was_seen_before_a_claim_says_nothing_about_it(database: Database) -> None:
    watch = ClaimsWatch(database, look_seconds=0.0)
    claim = claimed(database)
    with watch.watching(claim, StreamHandle()):
        taken(database, claim.run_id)
        assert watch.news(claim) == "lease_lost"
        stale = dict(watch._standings)
    again = claimed(database, claim.run_id)
    watch._look_seconds = 3600.0
    with watch.watching(again, StreamHandle()):
        watch._standings = stale
        assert watch.news(again) is None or stale[claim.run_id].fence > again.fence


@pytest.mark.parametrize(("event", "reason"), EVENTS)
def test_a_wake_up_ends_the_stream_that_the_record_has_news_for(
    database: Database, event: Callable[[Database, RunId], None], reason: AbortReason | None
) -> None:
    watch = ClaimsWatch(database, look_seconds=3600.0)
    claim, other = claimed(database), claimed(database)
    handle, others = StreamHandle(), StreamHandle()
    with watch.watching(claim, handle), watch.watching(other, others):
        watch.wake([claim.run_id, RunId("run_elsewhere")])
        assert handle.reason is None  # a wake-up says nothing by itself
        event(database, claim.run_id)
        event(database, other.run_id)
        watch.wake([claim.run_id])
        assert (handle.reason, others.reason) == (reason, None)
    watch.wake([claim.run_id, other.run_id])
    assert others.reason is None


@pytest.mark.parametrize(("event", "reason"), EVENTS)
def test_a_wake_up_between_claim_and_stream_ends_the_stream_before_it_begins(
    database: Database, event: Callable[[Database, RunId], None], reason: AbortReason | None
) -> None:
    watch = ClaimsWatch(database, look_seconds=3600.0)
    run_id, handle = a_run(database).run_id, StreamHandle()
    with watch.expecting(run_id):
        claim = claimed(database, run_id)
        event(database, run_id)
        watch.wake([run_id, RunId("run_elsewhere")])
        with watch.watching(claim, handle):
            assert handle.reason == reason


def test_a_wake_up_before_a_step_is_not_remembered_for_it(database: Database) -> None:
    watch = ClaimsWatch(database, look_seconds=3600.0)
    claim, handle = claimed(database), StreamHandle()
    stopped(database, claim.run_id)
    watch.wake([claim.run_id])
    with watch.expecting(claim.run_id):
        watch.wake([claim.run_id])
    with watch.expecting(claim.run_id), watch.watching(claim, handle):
        assert handle.reason is None  # the next look into the record ends it


def test_a_run_that_is_stopped_right_after_its_claim_sends_no_request(database: Database) -> None:
    plain = a_process(database)
    run_id = a_run(database).run_id
    claims = ClaimsWatch(database, look_seconds=3600.0)

    class StoppedMeanwhile(SpecCache):
        """The step's first look after its claim."""

        def get(self, run_id: RunId, policy_rev: int = 0) -> RunSpec:
            stopped(database, run_id)
            claims.wake([run_id])
            return super().get(run_id, policy_rev)

    def never_sent(control: StreamControl) -> ModelTurn:
        assert control.handle.reason == "stop"  # an adapter sends nothing under such a handle
        return ModelTurn(failure=Failure(error_class="aborted", is_retryable=False))

    plain.model.script.append(never_sent)
    runtime = replace(plain.runtime, claims=claims, specs=StoppedMeanwhile(database))
    assert replace(plain, runtime=runtime).step(run_id, 1) == "handed back: stop"
    assert run_row(database, run_id)["status"] == "cancelled"


def test_a_listener_outlives_a_redis_that_is_away(database: Database) -> None:
    watch = ClaimsWatch(database, look_seconds=3600.0)
    claim, handle = claimed(database), StreamHandle()
    server = fakeredis.FakeServer()
    client = fakeredis.FakeRedis(server=server, decode_responses=True)
    server.connected = False
    watch.listen(WakeUpListener(client, prefix="u"))
    stopped(database, claim.run_id)
    with watch.watching(claim, handle):
        server.connected = True

        def woken() -> bool:
            WakeUps(client, prefix="u").send([claim.run_id])
            return handle.reason == "stop"

        wait_until(woken, 20, "the stream is ended")


def listening(control: StreamControl) -> ModelTurn:
    """A stream as the adapters read one: asked for news until there are some."""
    reason = control.watch()
    assert reason is not None
    control.handle.abort(reason)
    failure = Failure(error_class="aborted", is_retryable=False)
    return ModelTurn(usage=Usage(), failure=failure)


def test_a_corrected_stream_is_given_up_and_the_step_hears_the_correction(
    database: Database,
) -> None:
    process = a_process(database)
    run_id = a_run(database).run_id

    def corrected_while_it_speaks(control: StreamControl) -> ModelTurn:
        corrected(database, run_id)
        return listening(control)

    process.model.script.extend([corrected_while_it_speaks, said()])
    assert process.step(run_id, 1) == "handed back: steer"
    assert attempts(database, run_id) == [(1, "closed", "discard")]
    process.step(run_id, 1)
    assert "Use staging." in repr(process.model.requests[-1])
    assert run_row(database, run_id)["status"] == "completed"


def test_a_stopped_stream_is_given_up_and_the_run_is_over(database: Database) -> None:
    process = a_process(database)
    run_id = a_run(database).run_id

    def stopped_while_it_speaks(control: StreamControl) -> ModelTurn:
        stopped(database, run_id)
        return listening(control)

    process.model.script.append(stopped_while_it_speaks)
    process.step(run_id, 1)
    assert run_row(database, run_id)["status"] == "cancelled"
    assert event_kinds(database, run_id)[-1] == "run.cancelled"
