"""What the next request is built from, and stored results by page."""

import hashlib

import pytest

from loop.decision import Answer
from loop.outcome import Returned
from loop.request import ToolMessage
from loop.transcript import build_request
from models.calls import settle
from models.database import Database
from models.events import read_events
from models.evidence import ThreadEvidence
from models.records import SpecCache, load_record
from models.steps import commit_answer
from tests.factories import RunWish, a_run, a_tool
from tests.models.story import (
    READ,
    REFUSED,
    an_exchange,
    change,
    claimed,
    dispatched,
    event_kinds,
    started,
)
from umbel.contracts import RunId, ThreadId
from umbel.errors import InvalidInput, InvariantBroken, NotFound

BODY = '{"text":"' + "äöü😀" * 500 + '"}'


def a_result(database: Database, body: str = BODY) -> tuple[str, ThreadId]:
    """A stored result: its handle and its thread."""
    step = dispatched(database, READ)
    settle(database, started(database, step.calls[0]), Returned(body), "cut")
    return step.calls[0], step.claim.thread_id


def test_the_record_shows_results_in_the_models_order_whatever_order_they_came_in(
    database: Database,
) -> None:
    run = a_run(database, RunWish(input="Look {here}.", tools=(a_tool(),)))
    step = dispatched(database, READ, REFUSED, READ, claim=claimed(database, run.run_id))
    for at in (2, 0):
        settle(database, started(database, step.calls[at]), Returned(f'"{at}"'), f"view {at}")
    spec = SpecCache(database).get(run.run_id)
    record = load_record(database, spec, 2)
    assert record.requests == ("Look {here}.",)
    [recorded] = record.steps
    assert (recorded.step, recorded.endpoint) == (1, "local/chat")
    assert [call.view for call in recorded.calls] == ["view 0", REFUSED.body, "view 2"]
    results = [m for m in build_request(record).messages if isinstance(m, ToolMessage)]
    assert [message.call_id for message in results] == step.calls


def test_the_record_of_the_first_step_has_no_steps(database: Database) -> None:
    run = a_run(database)
    assert load_record(database, SpecCache(database).get(run.run_id), 1).steps == ()


def test_a_call_without_a_result_in_a_step_that_is_over_is_a_broken_record(
    database: Database,
) -> None:
    step = dispatched(database, READ)
    spec = SpecCache(database).get(step.run_id)
    with pytest.raises(InvariantBroken, match="has no result"):
        load_record(database, spec, 2)


def test_replies_that_were_not_acted_upon_are_not_in_the_record(database: Database) -> None:
    claim = claimed(database)
    commit_answer(database, claim, an_exchange(), Answer("Hello."))
    spec = SpecCache(database).get(claim.run_id)
    assert load_record(database, spec, 2).steps == ()


def test_the_specification_is_what_was_frozen(database: Database) -> None:
    run = a_run(
        database,
        RunWish(model="m1", tools=(a_tool("look"), a_tool("read")), policy={"parallel": 3}),
    )
    spec = SpecCache(database).get(run.run_id)
    assert (spec.model, spec.policy.parallel) == ("m1", 3)
    assert [tool["name"] for tool in spec.tools] == ["look", "read"]
    assert spec.tool("read") == spec.tools[1]
    assert spec.tool("none") is None
    assert len(spec.policy_sha) == len(spec.tools_sha) == 64


def test_the_cache_keeps_the_specifications_used_last(database: Database) -> None:
    cache = SpecCache(database, size=2)
    first, second, third = (a_run(database).run_id for _ in range(3))
    kept = cache.get(first)
    cache.get(second)
    assert cache.get(first) is kept
    cache.get(third)
    assert cache.get(third) is cache.get(third)


def test_a_run_that_never_was_has_no_specification(database: Database) -> None:
    with pytest.raises(InvariantBroken, match="'run_none' has no specification"):
        SpecCache(database).get(RunId("run_none"))


def test_a_result_is_read_page_by_page_to_the_last_character(database: Database) -> None:
    handle, thread_id = a_result(database)
    reader = ThreadEvidence(database, thread_id, "acme")
    text, offset, pages = "", 0, 0
    while True:
        page = reader.read(handle, offset, 300)
        text, pages = text + page.text, pages + 1
        assert page.total_chars == len(BODY)
        if page.next_offset is None:
            break
        offset = page.next_offset
    assert text == BODY
    assert pages == -(-len(BODY) // 300)
    assert page.sha256 == hashlib.sha256(BODY.encode()).hexdigest()


def test_the_end_of_a_result_is_an_empty_page_and_behind_it_is_nothing(database: Database) -> None:
    handle, thread_id = a_result(database)
    reader = ThreadEvidence(database, thread_id, "acme")
    page = reader.read(handle, len(BODY), 10)
    assert (page.text, page.next_offset) == ("", None)
    with pytest.raises(InvalidInput, match="behind the end"):
        reader.read(handle, len(BODY) + 1, 10)
    for offset, limit in ((-1, 10), (0, 0)):
        with pytest.raises(InvalidInput):
            reader.read(handle, offset, limit)


def test_a_result_exists_only_for_its_own_thread_and_tenant(database: Database) -> None:
    handle, thread_id = a_result(database)
    for reader in (
        ThreadEvidence(database, ThreadId("thr_other"), "acme"),
        ThreadEvidence(database, thread_id, "other"),
    ):
        with pytest.raises(NotFound, match="no stored result"):
            reader.read(handle, 0, 10)


def test_events_are_read_on_from_any_number(database: Database) -> None:
    step = dispatched(database, READ)
    with database.begin() as connection:
        everything = read_events(connection, step.run_id, after=0)
        rest = read_events(connection, step.run_id, after=2)
        few = read_events(connection, step.run_id, after=0, limit=1)
    assert [event.kind for event in everything] == event_kinds(database, step.run_id)
    assert rest == everything[2:]
    assert few == everything[:1]
    assert everything[-1].ref == step.calls[0]


def test_a_corrupt_policy_is_never_guessed(database: Database) -> None:
    run = a_run(database)
    change(
        database,
        "UPDATE run_specs SET policy = '{\"odd\":1}',"
        " policy_sha = sha256(convert_to('{\"odd\":1}', 'UTF8'))",
    )
    with pytest.raises(InvariantBroken, match="stored Policy does not parse"):
        SpecCache(database).get(run.run_id)
