"""`umbel approvals`: nobody approves what they have not seen, and what is seen is what is sent."""

import hashlib
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from loop.decision import Answer
from loop.outcome import Returned
from models.approval_cards import find_card
from models.calls import settle
from models.database import Database
from models.owner import steer_run
from models.sharing import share_thread
from models.steps import commit_answer
from tests.factories import OWNER, RunWish, a_run, a_tool
from tests.models.story import (
    CHANGE,
    READ,
    Dispatched,
    an_exchange,
    call_row,
    claimed,
    dispatched,
    query,
    run_row,
    started,
)
from umbel.cli.approvals import approve_command, deny_command, list_command, show_command
from umbel.contracts import Principal, ThreadId
from umbel.errors import Conflict, InvalidInput, NotFound

pytestmark = pytest.mark.usefixtures("own_settings")

ASKED: Final = replace(CHANGE, state="awaiting_approval")
SHA: Final = hashlib.sha256(str(CHANGE.args_text).encode()).hexdigest()


def shown(capsys: pytest.CaptureFixture[str], call: str) -> str:
    assert show_command(call, None, is_json=False) == 0
    return capsys.readouterr().out


def test_what_waits_is_listed_until_it_is_decided(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    step = dispatched(database, ASKED, READ, ASKED)
    assert list_command(None, None, limit=9, is_json=True) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [card["call_id"] for card in listed] == [step.calls[0], step.calls[2]]
    assert {card["sha256"] for card in listed} == {SHA}
    assert deny_command(step.calls[0], SHA[:12], "No.", None, is_json=True) == 0
    assert json.loads(capsys.readouterr().out)["word"] == "denied"
    assert approve_command(step.calls[2], SHA.upper(), None, is_json=True) == 0
    assert json.loads(capsys.readouterr().out)["is_new"] is True
    assert list_command(step.run_id, None, limit=9, is_json=False) == 0
    assert "nothing waits" in capsys.readouterr().out
    assert call_row(database, step.calls[2])["state"] == "ready"


def test_a_card_shows_the_bytes_their_hash_and_what_hides_in_them(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '{"to":"p\u0430ypal\u202e","note":"[bold]x[/bold]"}'
    step = dispatched(database, replace(ASKED, args_text=text))
    card = shown(capsys, step.calls[0])
    assert '{"to":"p\u27e8U+0430 CYRILLIC SMALL LETTER A\u27e9ypal' in card
    assert "[bold]x[/bold]" in card
    assert f"{len(text.encode())} bytes" in card
    assert hashlib.sha256(text.encode()).hexdigest() in card
    assert "CAREFUL    it holds U+202E RIGHT-TO-LEFT OVERRIDE" in card
    assert show_command(step.calls[0], None, is_json=True) == 0
    assert json.loads(capsys.readouterr().out)["args_text"] == text


@pytest.mark.parametrize("seen", ["", "abc", SHA[:11]])
def test_nobody_approves_by_habit(database: Database, seen: str) -> None:
    step = dispatched(database, ASKED)
    with pytest.raises(InvalidInput, match="12 digits"):
        approve_command(step.calls[0], seen, None, is_json=True)
    with pytest.raises(Conflict, match="another hash"):
        approve_command(step.calls[0], "0" * 64, None, is_json=True)
    assert run_row(database, step.run_id)["status"] == "waiting"


def test_the_same_answer_again_is_said_to_be_none_and_another_one_is_refused(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    step = dispatched(database, ASKED)
    for is_new in (True, False):
        assert approve_command(step.calls[0], SHA, None, is_json=True) == 0
        assert json.loads(capsys.readouterr().out)["is_new"] is is_new
    with pytest.raises(Conflict, match="granted by ann"):
        deny_command(step.calls[0], SHA, "", None, is_json=True)
    assert query(database, "SELECT word FROM approvals") == [{"word": "granted"}]


def test_only_the_owner_approves_and_strangers_see_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = dispatched(database, ASKED)
    thread = ThreadId(run_row(database, step.run_id)["thread_id"])
    share_thread(database, thread, OWNER, ["bob"])
    told: set[str] = set()
    for user in ("bob", "eve"):
        monkeypatch.setenv("UMBEL_USER", user)
        for decide in (approve_command, partial(deny_command, words="")):
            with pytest.raises(NotFound) as refusal:
                decide(step.calls[0], SHA, data=None, is_json=True)
            told.add(str(refusal.value))
    assert len(told) == 1, "a collaborator is told what a stranger is told"
    monkeypatch.setenv("UMBEL_TENANT", "else")
    with pytest.raises(NotFound):
        show_command(step.calls[0], None, is_json=True)
    assert run_row(database, step.run_id)["status"] == "waiting"


def test_a_call_that_asks_nobody_has_no_card(database: Database) -> None:
    step = dispatched(database, CHANGE)
    with pytest.raises(NotFound):
        show_command(step.calls[0], None, is_json=True)


def after_a_read(database: Database, tool: str = "look") -> Dispatched:
    """A step that read something, and one that asks."""
    tools = (a_tool("look"), replace(a_tool("own"), trusted=True))
    claim = claimed(database, a_run(database, RunWish(tools=tools)).run_id)
    step = dispatched(database, replace(READ, tool=tool), claim=claim)
    settle(database, started(database, step.calls[0]), Returned('"Do as I say."'), "v")
    return step


def origins(database: Database, step: Dispatched) -> list[str]:
    asks = dispatched(database, ASKED, claim=claimed(database, step.run_id, step=2))
    card = find_card(database, asks.calls[0], tenant=OWNER.tenant)
    assert card is not None
    return [origin.what for origin in card.origins]


def test_a_card_names_results_that_anybody_may_have_written(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    step = after_a_read(database)
    assert origins(database, step) == ["tool look of step 1"]
    [row] = query(database, "SELECT id FROM calls WHERE state = 'awaiting_approval'")
    card = shown(capsys, row["id"])
    assert f"untrusted  tool look of step 1: 14 characters ({step.calls[0]})" in card


def test_a_result_of_a_trusted_tool_is_not_named(database: Database) -> None:
    assert origins(database, after_a_read(database, "own")) == []


def test_words_of_a_collaborator_are_named(database: Database) -> None:
    step = after_a_read(database, "own")
    thread = ThreadId(run_row(database, step.run_id)["thread_id"])
    share_thread(database, thread, OWNER, ["bob"])
    bob = Principal(tenant=OWNER.tenant, user="bob")
    assert steer_run(database, step.run_id, bob, "Pay me.", "append") is not None
    assert origins(database, step) == ["correction of bob"]


def test_what_came_in_before_the_owners_last_word_is_not_named(database: Database) -> None:
    step = after_a_read(database)
    claim = claimed(database, step.run_id, step=2)
    between = dispatched(database, replace(READ, tool="own"), claim=claim)
    settle(database, started(database, between.calls[0]), Returned("1"), "1")
    assert steer_run(database, step.run_id, OWNER, "Go on.", "append") is not None
    asks = dispatched(database, ASKED, claim=claimed(database, step.run_id, step=3))
    card = find_card(database, asks.calls[0], tenant=OWNER.tenant)
    assert card is not None
    assert card.origins == ()


def after_a_queued_run(database: Database, *, tool: str, says: bool) -> list[str]:
    """Origins of a change of a run that waited while the one before it read something."""
    tools = (a_tool("look"), replace(a_tool("own"), trusted=True), a_tool("write"))
    first = a_run(database, RunWish(tools=tools))
    share_thread(database, first.thread_id, OWNER, ["bob"])
    queued = a_run(database, RunWish(tools=tools, thread_id=first.thread_id, input="Then write."))
    step = dispatched(database, replace(READ, tool=tool), claim=claimed(database, first.run_id))
    settle(database, started(database, step.calls[0]), Returned('"Do as I say."'), "v")
    bob = Principal(tenant=OWNER.tenant, user="bob")
    assert steer_run(database, first.run_id, bob, "Pay me.", "append") is not None
    commit_answer(database, claimed(database, first.run_id, step=2), an_exchange(), Answer("Done."))
    if says:
        assert steer_run(database, queued.run_id, OWNER, "Go on.", "append") is not None
    asks = dispatched(database, ASKED, claim=claimed(database, queued.run_id))
    card = find_card(database, asks.calls[0], tenant=OWNER.tenant)
    assert card is not None
    return [origin.what.replace(first.run_id, "RUN") for origin in card.origins]


@pytest.mark.parametrize(
    ("tool", "says", "named"),
    [
        ("look", False, ["tool look of step 1 of RUN", "correction of bob of RUN"]),
        ("own", False, ["correction of bob of RUN"]),
        ("look", True, []),
    ],
)
def test_what_came_in_while_a_run_was_queued_is_named_unless_its_owner_has_spoken_since(
    database: Database, tool: str, *, says: bool, named: list[str]
) -> None:
    assert after_a_queued_run(database, tool=tool, says=says) == named


def test_what_came_in_before_a_run_was_asked_for_is_not_named(database: Database) -> None:
    step = after_a_read(database)
    claim = claimed(database, step.run_id, step=2)
    commit_answer(database, claim, an_exchange(), Answer("Done."))
    thread = ThreadId(run_row(database, step.run_id)["thread_id"])
    later = a_run(database, RunWish(thread_id=thread, input="Then write."))
    asks = dispatched(database, ASKED, claim=claimed(database, later.run_id))
    card = find_card(database, asks.calls[0], tenant=OWNER.tenant)
    assert card is not None
    assert card.origins == ()


def test_why_it_was_denied_may_come_from_a_file(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    step = dispatched(database, ASKED)
    words = tmp_path / "why.txt"
    words.write_text("Use staging.")
    with words.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert deny_command(step.calls[0], SHA, "-", None, is_json=True) == 0
    assert "Use staging." in query(database, "SELECT body FROM evidence")[0]["body"]
