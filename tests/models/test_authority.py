"""What is said about everybody's runs counts from its commit on, for every intent."""

from collections.abc import Callable
from typing import Any

import pytest

from loop.authorize import Act, Rule, authorize
from models import authority, hot_calls
from models.authority import NOTHING_SAID, Authority, read_authority, say
from models.calls import CallRow, load_call, record_intent, start_read
from models.database import Database
from tests.factories import OWNER
from tests.models.story import CHANGE, ME, READ, count, dispatched
from tests.models.two_sessions import holding, meet
from umbel.contracts import Principal
from umbel.errors import InvalidInput

OPERATOR = Principal(tenant=OWNER.tenant, user="operator")
FREEZE = Rule("tenant", "", "deny")
THAW = Rule("tenant", "", "allow")
OFF = Rule("tool", "write", "deny")


def a_call(database: Database, of: Any = CHANGE) -> CallRow:
    call = load_call(database, dispatched(database, of).calls[0])
    assert call is not None
    return call


def test_of_each_thing_the_newest_word_counts(database: Database) -> None:
    assert read_authority(database, OWNER.tenant) == NOTHING_SAID
    assert say(database, OPERATOR, FREEZE, "incident 7") == 1
    assert say(database, OPERATOR, OFF, "recalled") == 2
    assert say(database, OPERATOR, THAW, "over") == 3
    assert read_authority(database, OWNER.tenant) == Authority(3, (THAW, OFF))
    assert read_authority(database, "else") == NOTHING_SAID
    assert count(database, "authority") == 3


@pytest.mark.parametrize(
    "rule",
    [
        Rule("tenant", "x", "deny"),
        Rule("tool", "", "deny"),
        Rule("odd", "x", "deny"),  # type: ignore[arg-type]  # what a caller without types may give
        Rule("tool", "x", "never"),  # type: ignore[arg-type]  # the same
    ],
)
def test_a_rule_without_sense_is_refused(database: Database, rule: Rule) -> None:
    with pytest.raises(InvalidInput):
        say(database, OPERATOR, rule, "why")
    with pytest.raises(InvalidInput):
        say(database, OPERATOR, FREEZE, " ")
    assert count(database, "authority") == 0


def test_a_target_is_protected_however_the_rule_spells_it(database: Database) -> None:
    say(database, OPERATOR, Rule("target", "Docs/./Secret/", "deny"), "Hands off.")
    say(database, OPERATOR, Rule("target", "42\u200b", "deny"), "Hands off.")
    rules = read_authority(database, OWNER.tenant).rules
    for name in ("docs/secret", "docs/secret/a", "42"):
        act = Act(OWNER.user, "write", "mutation", (name,))
        assert authorize(act, "full_access", rules).permission == "deny", name
    say(database, OPERATOR, Rule("target", "DOCS//secret", "allow"), "Go on.")
    act = Act(OWNER.user, "write", "mutation", ("docs/secret",))
    rules = read_authority(database, OWNER.tenant).rules
    assert authorize(act, "full_access", rules).permission == "allow"


def test_a_call_is_loaded_with_what_counts_in_its_tenant(database: Database) -> None:
    say(database, Principal(tenant="else", user="x"), FREEZE, "another tenant")
    assert a_call(database).authority == NOTHING_SAID
    say(database, OPERATOR, OFF, "recalled")
    assert a_call(database).authority == Authority(1, (OFF,))


@pytest.mark.parametrize("of", [CHANGE, READ])
def test_nothing_starts_by_a_judgement_that_is_out_of_date(database: Database, of: Any) -> None:
    call = a_call(database, of)
    start = record_intent if of is CHANGE else start_read
    say(database, OPERATOR, FREEZE, "incident 7")
    assert start(database, call, ME) is None
    again = load_call(database, call.call_id)
    assert again is not None
    assert start(database, again, ME) is not None  # who is to judge it is not the statement


@pytest.mark.parametrize("of", [CHANGE, READ])
def test_what_is_said_in_another_tenant_forbids_nothing_here(database: Database, of: Any) -> None:
    call = a_call(database, of)
    say(database, Principal(tenant="else", user="x"), FREEZE, "another tenant")
    assert (record_intent if of is CHANGE else start_read)(database, call, ME) is not None


def test_no_change_is_intended_while_a_freeze_commits(database: Database, url: str) -> None:
    call = a_call(database)
    with holding(url) as session:
        say(session, OPERATOR, FREEZE, "incident 7")
        assert meet(session, lambda: record_intent(database, call, ME)) is None
    assert count(database, "receipts") == 0


def test_a_freeze_waits_for_the_intent_that_came_first(database: Database, url: str) -> None:
    call = a_call(database)
    with holding(url) as session:
        assert record_intent(session, call, ME) is not None
        assert meet(session, lambda: say(database, OPERATOR, FREEZE, "incident 7")) == 1
    assert count(database, "receipts") == 1


def test_intents_of_a_tenant_do_not_wait_for_each_other(database: Database, url: str) -> None:
    first, second = a_call(database), a_call(database)
    with holding(url) as session:
        assert record_intent(session, first, ME) is not None
        assert record_intent(database, second, ME) is not None
        session.commit()


def test_words_that_meet_are_counted_one_after_the_other(database: Database, url: str) -> None:
    with holding(url) as session:
        assert say(session, OPERATOR, FREEZE, "incident 7") == 1
        assert meet(session, lambda: say(database, OPERATOR, OFF, "recalled")) == 2


@pytest.mark.parametrize(
    ("place", "name", "old", "new", "scenario"),
    [
        (hot_calls, "INTENT", "= %(authority_rev)s", ">= 0", "freeze"),
        (authority, "_LOCK_ALONE", "pg_advisory_xact_lock(", "length('' || ", "freeze"),
        (hot_calls, "START_READ", "= %(authority_rev)s", ">= 0", "read"),
    ],
)
def test_a_fault_in_a_statement_is_noticed(
    database: Database,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    place: Any,
    name: str,
    old: str,
    new: str,
    scenario: str,
) -> None:
    scenarios: dict[str, Callable[[], None]] = {
        "freeze": lambda: test_no_change_is_intended_while_a_freeze_commits(database, url),
        "read": lambda: test_nothing_starts_by_a_judgement_that_is_out_of_date(database, READ),
    }
    sql = getattr(place, name)
    assert old in sql, f"the planted fault no longer fits {name}: write it anew"
    monkeypatch.setattr(place, name, sql.replace(old, new))
    with pytest.raises(AssertionError):
        scenarios[scenario]()
