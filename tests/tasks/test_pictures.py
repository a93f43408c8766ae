"""Pictures of results, from the tool to the request, and to the same request again."""

import hashlib
import json

from loop.request import PicturesMessage, ToolMessage
from loop.shape import Place, Shape
from loop.transcript import build_request
from models.database import Database
from models.records import load_record, load_spec
from tests.factories import RunWish, a_run, a_tool
from tests.invariants import violations
from tests.models.story import call_ids, query, run_row
from tests.tasks.process import Process, a_process, asked, said
from umbel.contracts import RunId, ThreadId

PNG = b"\x89PNG\r\n\x1a\n"
SHOT = a_tool("shot", lambda **_: {"text": "seen", "images": [{"data": PNG}, {"data": PNG + b"2"}]})
NOTE = a_tool("note", lambda **_: "noted")


def looked(
    database: Database, *, images: bool, thread: ThreadId | None = None
) -> tuple[Process, RunId]:
    """A run whose model has asked for a picture, a note and a picture, and then answered."""
    process = a_process(database, SHOT, NOTE)
    wish = RunWish(
        tools=(SHOT, NOTE),
        policy={"permission_mode": "full_access"},
        images=images,
        thread_id=thread,
    )
    run = a_run(database, wish)
    process.model.script.extend(
        [asked(("shot", "{}"), ("note", "{}"), ("shot", '{"n":2}')), said()]
    )
    process.step(run.run_id)
    for call_id in reversed(call_ids(database, run.run_id)):
        process.call(call_id)
    process.bell.calls.clear()
    process.carry_all()
    assert run_row(database, run.run_id)["status"] == "completed"
    return process, run.run_id


def test_pictures_come_after_all_results_in_the_models_order(database: Database) -> None:
    process, run_id = looked(database, images=True)
    first, _, third = call_ids(database, run_id)
    *_, before, last = process.model.requests[1].messages
    assert isinstance(before, ToolMessage)
    assert isinstance(last, PicturesMessage)
    assert [result.call_id for result in last.shown] == [first, third]
    for result in last.shown:
        assert [picture.body for picture in result.pictures] == [PNG, PNG + b"2"]
    assert violations(database) == []


def test_a_model_that_takes_no_pictures_is_told_what_they_are(database: Database) -> None:
    process, run_id = looked(database, images=False)
    messages = process.model.requests[1].messages
    assert not any(isinstance(message, PicturesMessage) for message in messages)
    [seen] = [
        m
        for m in messages
        if isinstance(m, ToolMessage) and m.call_id == call_ids(database, run_id)[0]
    ]
    told = json.loads(seen.text)["images"]
    assert told[0] == {
        "media_type": "image/png",
        "size_bytes": len(PNG),
        "sha256": hashlib.sha256(PNG).hexdigest(),
    }
    assert len(query(database, "SELECT number FROM pictures")) == 4, "they are kept all the same"


def test_a_request_with_pictures_can_be_built_again(database: Database) -> None:
    process, run_id = looked(database, images=True)
    record = load_record(database, load_spec(database, run_id), 2)
    assert build_request(record) == process.model.requests[1]


def test_a_follow_up_sees_the_pictures_of_the_run_before_it(database: Database) -> None:
    _, first = looked(database, images=True)
    [row] = query(database, "SELECT thread_id FROM runs")
    process, _ = looked(database, images=True, thread=ThreadId(row["thread_id"]))
    shown = [m for m in process.model.requests[0].messages if isinstance(m, PicturesMessage)]
    assert [result.call_id for m in shown for result in m.shown] == call_ids(database, first)[::2]


def test_pictures_of_results_that_are_left_out_are_neither_shown_nor_read(
    database: Database,
) -> None:
    _, run_id = looked(database, images=True)
    shape = Shape(pruned_before=Place(run_id=run_id, step=2))
    record = load_record(database, load_spec(database, run_id), 2, shape=shape)
    assert [call.pictures for call in record.steps[0].calls] == [(), (), ()]
    whole = load_record(database, load_spec(database, run_id), 2)
    for read in (record, whole):
        messages = build_request(read, shape).messages
        assert not any(isinstance(message, PicturesMessage) for message in messages)
