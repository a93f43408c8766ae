"""A model whose reply was none is told so when it is asked again, and never of anything else."""

import pytest

from loop.request import UserMessage
from loop.response import ErrorClass, Failure, ModelTurn
from loop.transcript import MISTAKES, RequestManifest
from models.database import Database
from models.owner import resume_run, steer_run
from models.records import load_sent_request
from tasks.rebuilding import rebuild_request
from tests.factories import OWNER, RunWish, a_run, a_tool
from tests.models.story import change, query, run_row
from tests.tasks.process import Process, a_process, asked, said
from umbel.contracts import RunId

LOOK = a_tool("look")
EMPTY = UserMessage(MISTAKES["empty_response"])
UNREADABLE = UserMessage(MISTAKES["model_output"])


def failed(error_class: ErrorClass) -> ModelTurn:
    return ModelTurn(failure=Failure(error_class=error_class, is_retryable=True, message="no"))


def carried(database: Database, *script: ModelTurn, **policy: int) -> tuple[Process, RunId]:
    """A run that met these replies, one after the other, without waiting between them."""
    run_id = a_run(database, RunWish(tools=(LOOK,), policy=policy)).run_id
    process = a_process(database, LOOK)
    process.model.script.extend(script)
    while process.model.script:
        step = run_row(database, run_id)["step"]
        process.step(run_id, step)
        process.carry_all()
        change(database, "UPDATE runs SET not_before = NULL")
    return process, run_id


def last_words(process: Process) -> list[object]:
    return [request.messages[-1] for request in process.model.requests]


@pytest.mark.parametrize(
    ("error_class", "note"), [("empty_response", EMPTY), ("model_output", UNREADABLE)]
)
def test_the_next_request_is_the_same_and_says_what_was_wrong(
    database: Database, error_class: ErrorClass, note: UserMessage
) -> None:
    process, run_id = carried(database, failed(error_class), said())
    first, second = process.model.requests
    assert second.messages == (*first.messages, note)
    assert run_row(database, run_id)["status"] == "completed"


def test_the_note_is_of_that_step_alone(database: Database) -> None:
    process, _ = carried(
        database, failed("empty_response"), asked(("look", "{}")), failed("model_output"), said()
    )
    request, corrected, later, again = process.model.requests
    assert corrected.messages[-1] == EMPTY
    assert EMPTY not in later.messages
    assert later.messages[: len(request.messages)] == request.messages
    assert again.messages == (*later.messages, UNREADABLE)


def test_a_failure_of_the_endpoint_neither_makes_nor_forgets_a_note(database: Database) -> None:
    process, _ = carried(database, failed("server"), failed("empty_response"), failed("server"))
    process.model.script.append(said())
    [row] = query(database, "SELECT id, step FROM runs")
    process.step(row["id"], row["step"])
    first, second, third, fourth = process.model.requests
    assert first == second
    assert third == fourth
    assert third.messages == (*first.messages, EMPTY)


def test_it_stands_behind_what_people_said_meanwhile_and_outlasts_a_pause(
    database: Database,
) -> None:
    process, run_id = carried(database, failed("empty_response"), empty_retries=0)
    assert run_row(database, run_id)["reason"] == "empty_response"
    assert steer_run(database, run_id, OWNER, "Be brief.", "append") is not None
    assert resume_run(database, run_id, OWNER) == 1
    process.model.script.append(said())
    process.step(run_id)
    assert process.model.requests[-1].messages[-2:] == (UserMessage("Be brief."), EMPTY)


def test_two_corrections_and_no_more(database: Database) -> None:
    process, run_id = carried(database, *[failed("model_output")] * 3)
    assert last_words(process)[1:] == [UNREADABLE, UNREADABLE]
    run = run_row(database, run_id)
    assert (run["status"], run["reason"]) == ("paused", "empty_response")


def test_every_such_request_can_be_rebuilt_byte_for_byte(database: Database) -> None:
    process, run_id = carried(database, failed("empty_response"), failed("server"), said())
    for attempt, request in enumerate(process.model.requests, start=1):
        sent = load_sent_request(database, run_id, 1, attempt)
        rebuilt = rebuild_request(database, {"chat": process.model}, run_id, 1, attempt)
        assert sent is not None
        assert rebuilt.body == process.model.render(request, {})
        assert bytes.fromhex(rebuilt.sha256) == sent.request_sha
    assert [(m.mistake, m.through_step) for m in manifests(database, run_id, process)] == [
        (None, 0),
        ("empty_response", 0),
        ("empty_response", 0),
    ]


def manifests(database: Database, run_id: RunId, process: Process) -> list[RequestManifest]:
    return [
        rebuild_request(database, {"chat": process.model}, run_id, 1, attempt).manifest
        for attempt in (1, 2, 3)
    ]
