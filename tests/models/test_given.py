"""Texts given beside a request: shown with it, and edited or deleted while the run works."""

from dataclasses import replace

import pytest

from loop.decision import Answer
from loop.request import UserMessage
from loop.transcript import build_request
from models.approval_cards import find_card
from models.database import Database
from models.records import load_record, load_spec
from models.refreshing import look, stay
from models.steps import commit_answer
from tests.factories import RunWish, a_run
from tests.models.source_story import notice, stale_claim
from tests.models.story import CHANGE, an_exchange, claimed, dispatched, run_row
from umbel.contracts import RunId
from umbel.errors import IdReused, InvalidInput
from umbel.source_name import GivenSource

MAIL = "message:s1"
GIVEN = (GivenSource(MAIL, "u-3", "Meeting at 10."), GivenSource("message:s2", "u-4", "Room 4."))


def accepted(database: Database, run_id: RunId | None = None) -> RunId:
    return a_run(database, RunWish(input="When?", sources=GIVEN, run_id=run_id)).run_id


def shown(database: Database, run_id: RunId, source_rev: int) -> list[str]:
    record = load_record(database, load_spec(database, run_id), 1, source_rev=source_rev)
    return [m.text for m in build_request(record).messages if isinstance(m, UserMessage)]


def rev(database: Database, run_id: RunId) -> int:
    number: int = run_row(database, run_id)["source_rev"]
    return number


def test_they_are_shown_in_order_and_the_request_last_and_verbatim(database: Database) -> None:
    first, second, request = shown(database, accepted(database), 0)
    assert "Meeting at 10." in first
    assert "u-3" in first
    assert "Room 4." in second
    assert request == "When?"


def test_an_edit_makes_the_answer_stale_and_is_shown_in_its_place(database: Database) -> None:
    run_id = accepted(database)
    claim = claimed(database, run_id)
    [told] = notice(database, None, source=MAIL, text="Meeting at 14.")
    assert told.moves
    assert commit_answer(database, claim, an_exchange(), Answer("Ten.")) is None
    first, second, _ = shown(database, run_id, rev(database, run_id))
    assert "Meeting at 14." in first
    assert "Meeting at 10." not in first
    assert "Room 4." in second
    assert "Meeting at 10." in shown(database, run_id, 0)[0], "as the first request was"


@pytest.mark.parametrize(("is_deleted", "reason"), [(True, "deleted"), (False, "unreadable")])
def test_what_is_gone_is_a_gap(database: Database, *, is_deleted: bool, reason: str) -> None:
    run_id = accepted(database)
    notice(database, None, source=MAIL, is_deleted=is_deleted)
    first = shown(database, run_id, rev(database, run_id))[0]
    assert MAIL in first
    assert reason in first
    assert "Meeting" not in first


def test_what_keeps_changing_waits_for_the_next_look(database: Database) -> None:
    run_id = accepted(database)
    for number in range(4):
        assert notice(database, None, source=MAIL, text=f"At {number}.")[0].moves
    before = rev(database, run_id)
    [told] = notice(database, None, source=MAIL, text="At last.")
    assert not told.moves
    assert rev(database, run_id) == before
    assert "At 3." in shown(database, run_id, before)[0]
    claim = stale_claim(database, run_id, 1)
    assert look(database, claim) == []
    assert stay(database, claim, waits=False) is not None
    assert "At last." in shown(database, run_id, rev(database, run_id))[0]


def test_the_same_request_with_other_sources_is_another_one(database: Database) -> None:
    run_id = accepted(database, run_id=RunId("run_mine"))
    assert accepted(database, run_id=run_id) == run_id
    with pytest.raises(IdReused, match="its sources differ"):
        a_run(database, RunWish(input="When?", run_id=run_id))


def test_a_source_that_is_named_twice_is_refused(database: Database) -> None:
    with pytest.raises(InvalidInput):
        a_run(database, RunWish(sources=(GIVEN[0], GIVEN[0])))


def test_a_follow_up_knows_them(database: Database) -> None:
    first = a_run(database, RunWish(input="When?", sources=GIVEN))
    claim = claimed(database, first.run_id)
    commit_answer(database, claim, an_exchange(), Answer("Ten."))
    second = a_run(database, RunWish(input="Where?", thread_id=first.thread_id))
    claimed(database, second.run_id)
    texts = shown(database, second.run_id, 0)
    assert "Meeting at 10." in texts[0]
    assert texts[-1] == "Where?"


def test_a_card_names_them_as_written_by_others(database: Database) -> None:
    claim = claimed(database, accepted(database))
    run = dispatched(database, replace(CHANGE, state="awaiting_approval"), claim=claim)
    card = find_card(database, run.calls[0], tenant=None)
    assert card is not None
    assert [(origin.source, origin.what) for origin in card.origins] == [
        (MAIL, "source of u-3"),
        ("message:s2", "source of u-4"),
    ]
