"""Commands that do something to a run: one action each, and what to do where it cannot be done."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from locks.ownership import connect
from locks.wake_ups import WakeUpListener
from models.database import Database
from models.resources import keep_resources
from models.steps import hand_back
from tests.factories import OWNER, RunWish, a_run
from tests.models.story import (
    CHANGE,
    a_paused_run,
    beat,
    claimed,
    count,
    dispatched,
    event_kinds,
    fall_silent,
    made_unknown,
    query,
    run_row,
    started,
)
from tests.services import Place
from tests.worker_processes import wait_until
from umbel.cli.receipts import list_command, verify_command
from umbel.cli.runs_follow_up import follow_up_command
from umbel.cli.runs_resume import resume_command
from umbel.cli.runs_steer import steer_command
from umbel.cli.runs_stop import stop_command
from umbel.contracts import CallId, RunId
from umbel.errors import Conflict, InvalidInput, NotFound, NotPermitted
from umbel.service import Service

pytestmark = pytest.mark.usefixtures("own_settings")

Command = Callable[[], int]


def told(
    capsys: pytest.CaptureFixture[str], command: Command, code: int = 0
) -> list[dict[str, object]]:
    assert command() == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def stop(run: str, key: str | None = None, *, waits: bool = False) -> Command:
    return lambda: stop_command(run, None, key=key, is_waiting=waits, is_json=True)


def steer(
    run: str, text: str = "Use staging.", key: str | None = None, *, waits: bool = False
) -> Command:
    return lambda: steer_command(
        run, text, None, mode="append", key=key, is_waiting=waits, is_json=True
    )


def resume(run: str, *limits: str, key: str | None = None) -> Command:
    return lambda: resume_command(run, None, limits=limits, key=key, is_waiting=False, is_json=True)


def follow_up(run: str, on_busy: str = "enqueue", run_id: str | None = None) -> Command:
    return lambda: follow_up_command(
        run,
        "And now?",
        None,
        on_busy=on_busy,
        new_run_id=run_id,
        is_waiting=False,
        is_json=True,
    )


def an_unknown_change(database: Database) -> tuple[RunId, CallId]:
    beat(database)
    step = dispatched(database, CHANGE)
    assert keep_resources(database, started(database, step.calls[0]), ["INV-204", "INV-205"])
    fall_silent(database)
    made_unknown(database, step.calls[0])
    return step.run_id, step.calls[0]


def test_a_stop_says_what_is_draining_and_a_second_one_says_the_same(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    step = dispatched(database, CHANGE)
    started(database, step.calls[0])
    [first] = told(capsys, stop(step.run_id[:12]))
    [second] = told(capsys, stop(step.run_id))
    assert (first["type"], first["is_over"], first["is_new"]) == ("run.stopped", False, True)
    assert first["draining"] == second["draining"] == [step.calls[0]]
    assert second["is_new"] is False
    assert event_kinds(database, step.run_id).count("run.stopping") == 1
    stop_command(step.run_id, None, key=None, is_waiting=False, is_json=False)
    text = capsys.readouterr().out
    assert f"draining   {step.calls[0]} were started and are recorded" in text
    assert "nothing is done twice" in text


def test_a_stop_that_waits_ends_with_the_run(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = claimed(database)

    def give_back() -> None:
        wait_until(
            lambda: run_row(database, claim.run_id)["status"] == "cancelling", 60, "it is stopped"
        )
        hand_back(database, claim, wait_seconds=0, detail="stop", is_failure=False)

    worker = Thread(target=give_back)
    worker.start()
    first, *_, last = told(capsys, stop(claim.run_id, waits=True))
    worker.join()
    assert (first["is_over"], last["type"], last["status"]) == (False, "run.settled", "cancelled")


def test_stops_and_corrections_wake_whoever_streams(database: Database, place: Place) -> None:
    claims = [claimed(database), claimed(database)]
    with connect(place.redis_url, role="test") as client:
        listener = WakeUpListener(client, prefix=place.redis_prefix)
        listener.hear(0.001)
        stop(claims[0].run_id)()
        steer(claims[1].run_id)()
        assert listener.hear(1) == {claim.run_id for claim in claims}


def test_without_redis_a_stop_is_a_stop(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UMBEL_REDIS_URL", "redis://127.0.0.1:1/0")
    run_id = a_run(database).run_id
    [said] = told(capsys, stop(run_id))
    assert said["is_over"] is True
    assert run_row(database, run_id)["status"] == "cancelled"


def test_a_correction_repeated_under_its_key_is_one_and_another_text_is_refused(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_run(database).run_id
    [first] = told(capsys, steer(run_id, key="k"))
    [second] = told(capsys, steer(run_id, key="k"))
    assert (first["is_new"], second["is_new"]) == (True, False)
    assert first["steer_id"] == second["steer_id"]
    assert count(database, "steers") == 1
    for command in (steer(run_id, "Something else.", key="k"), stop(run_id, key="k")):
        with pytest.raises(InvalidInput, match="'k' was used for something else"):
            command()
    assert run_row(database, run_id)["stop_at"] is None


@pytest.mark.parametrize(
    ("end", "state", "code"), [("claim", "applied", 0), ("pause", "deferred", 1)]
)
def test_a_correction_that_waits_says_what_became_of_it(
    database: Database, capsys: pytest.CaptureFixture[str], end: str, state: str, code: int
) -> None:
    run_id = a_run(database).run_id if end == "claim" else a_paused_run(database)

    def go_on() -> None:
        wait_until(lambda: count(database, "steers") == 1, 60, "it is corrected")
        claimed(database, run_id)

    worker = Thread(target=go_on)
    if end == "claim":
        worker.start()
    *_, last = told(capsys, steer(run_id, waits=True), code)
    assert (last["type"], last["state"]) == ("steer.settled", state)
    if end == "claim":
        worker.join()


def test_what_hears_nothing_more_says_what_to_do_instead(database: Database) -> None:
    run_id = a_run(database).run_id
    stop(run_id)()
    with pytest.raises(Conflict, match=f"`umbel runs resume {run_id}`.*`umbel runs follow-up"):
        steer(run_id)()
    with pytest.raises(NotFound):
        steer("run_missing")()
    with pytest.raises(InvalidInput, match="redirect, append"):
        steer_command(run_id, "x", None, mode="odd", key=None, is_waiting=False, is_json=True)


def test_a_resume_with_another_limit_goes_on_and_says_so(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_paused_run(database)
    for wrong in ("tool_call_limit", "tool_call_limit=-1", "permission_mode=1"):
        with pytest.raises(InvalidInput):
            resume(run_id, wrong)()
    [said] = told(capsys, resume(run_id, "tool_call_limit=7", "iteration_cap=none", key="r"))
    assert (said["type"], said["is_new"]) == ("run.resumed", True)
    [again] = told(capsys, resume(run_id, "tool_call_limit=7", key="r"))
    assert again["is_new"] is False
    [event] = query(database, "SELECT data FROM events WHERE kind = 'run.resumed'")
    assert (event["data"]["by"], event["data"]["limits"]) == (OWNER.user, {"tool_call_limit": 7})


def test_an_unknown_change_is_listed_verified_once_and_then_the_run_goes_on(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id, call_id = an_unknown_change(database)
    list_command(run_id[:12], None, only_unknown=True, limit=20, is_json=False)
    shown = capsys.readouterr().out
    assert f"umbel receipts verify {call_id}" in shown
    assert "it named: INV-204, INV-205" in shown
    with pytest.raises(Conflict, match=call_id):
        resume(run_id)()

    def verify(found: str = "It is in the log.") -> Command:
        return lambda: verify_command(call_id, "happened", found, None, is_json=True)

    [first] = told(capsys, verify())
    [second] = told(capsys, verify())
    assert (first["unknowns"], first["is_new"], second["is_new"]) == (0, True, False)
    with pytest.raises(Conflict, match="is settled"):
        verify("It is in another log.")()
    assert told(capsys, lambda: list_command(
        None, None, only_unknown=True, limit=20, is_json=True)) == []  # fmt: skip
    [receipt] = told(
        capsys, lambda: list_command(None, None, only_unknown=False, limit=20, is_json=True)
    )
    assert (receipt["call_id"], receipt["verified_by"]) == (call_id, OWNER.user)
    assert receipt["resources"] == ["INV-204", "INV-205"]
    told(capsys, resume(run_id))
    assert run_row(database, run_id)["work"] == "ready"


def test_a_follow_up_joins_the_thread_with_the_runs_agent_model_and_workspace(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = a_run(database, RunWish(model="big", workspace=str(tmp_path)))
    [said] = told(capsys, follow_up(first.run_id, run_id="run_next"))
    assert (said["type"], said["run_id"], said["is_queued"]) == (
        "run.followed_up", "run_next", True,
    )  # fmt: skip
    assert said["thread_id"] == first.thread_id
    [spec] = query(
        database, "SELECT agent, model, workspace FROM run_specs WHERE run_id = 'run_next'"
    )
    assert spec == {"agent": "default", "model": "big", "workspace": str(tmp_path)}
    [again] = told(capsys, follow_up(first.run_id, run_id="run_next"))
    assert again["is_new"] is False


def test_a_busy_thread_is_treated_as_the_option_says(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    busy = a_run(database).run_id
    with pytest.raises(Conflict, match=busy):
        follow_up(busy, "reject")()
    with pytest.raises(InvalidInput, match="enqueue, reject, interrupt, steer"):
        follow_up(busy, "odd")()
    [steered] = told(capsys, follow_up(busy, "steer"))
    assert (steered["type"], steered["run_id"]) == ("run.steered", busy)
    [accepted] = told(capsys, follow_up(busy, "interrupt"))
    assert accepted["stopped"] == busy
    assert run_row(database, RunId(str(accepted["run_id"])))["work"] == "ready"


def test_a_collaborator_may_correct_and_nothing_else(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = a_run(database)
    with Service() as service:
        service.share(shared.thread_id, ["ben"])
    monkeypatch.setenv("UMBEL_USER", "ben")
    [said] = told(capsys, steer(shared.run_id))
    assert said["is_new"] is True
    assert run_row(database, shared.run_id)["owner_must_approve"] is True
    with pytest.raises(NotPermitted, match="Only the owner"):
        stop(shared.run_id)()
    monkeypatch.setenv("UMBEL_USER", "eve")
    for command in (steer(shared.run_id), stop(shared.run_id), resume(shared.run_id)):
        with pytest.raises(NotFound):
            command()
