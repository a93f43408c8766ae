"""`umbel authority` and `umbel threads`: what operators forbid, and whom owners let correct."""

import json
from typing import Final

import pytest

from loop.authorize import Rule
from models.authority import read_authority
from models.calls import load_call, record_intent
from models.database import Database
from models.owner import steer_run
from tests.factories import OWNER, a_run
from tests.models.story import CHANGE, ME, dispatched, query
from umbel.cli.authority import list_command, say_command
from umbel.cli.threads import share_command
from umbel.contracts import Principal
from umbel.errors import InvalidInput, NotFound
from umbel.names import Permission

pytestmark = pytest.mark.usefixtures("own_settings")

BOB: Final = Principal(tenant=OWNER.tenant, user="bob")


def rules(database: Database) -> list[Rule]:
    return sorted(read_authority(database, OWNER.tenant).rules, key=lambda rule: rule.scope)


@pytest.mark.parametrize(
    ("permission", "thing", "rule", "means"),
    [
        ("deny", "tenant", Rule("tenant", "", "deny"), "no run changes anything"),
        ("ask", "user:bob", Rule("user", "bob", "ask"), "waits for them"),
        ("deny", "tool:list_files", Rule("tool", "list_files", "deny"), "it is not called"),
        ("deny", "target:./PROD//db", Rule("target", "prod/db", "deny"), "below it"),
        ("deny", "target:s3:Prod*", Rule("target", "s3:prod*", "deny"), "below it"),
        ("allow", "tenant", Rule("tenant", "", "allow"), "nothing is said"),
    ],
)
def test_a_rule_counts_at_once_and_says_what_it_means(
    database: Database,
    capsys: pytest.CaptureFixture[str],
    permission: Permission,
    thing: str,
    rule: Rule,
    means: str,
) -> None:
    assert say_command(permission, thing, "incident 7", None, is_json=False) == 0
    said = capsys.readouterr().out
    assert rules(database) == [rule]
    assert means in said
    assert f"tenant {OWNER.tenant}" in said
    assert "note" not in said


@pytest.mark.parametrize(
    ("thing", "why"),
    [
        ("everything", "why"),
        ("tool", "why"),
        ("tool:", "why"),
        ("tenant:x", "why"),
        ("target: ", "why"),
        ("Tenant", "why"),
        ("tenant", " "),
        ("user:a\ud800", "why"),
    ],
)
def test_a_rule_without_sense_or_reason_is_refused(
    database: Database, thing: str, why: str
) -> None:
    with pytest.raises(InvalidInput):
        say_command("deny", thing, why, None, is_json=False)
    assert rules(database) == []


def test_a_freeze_needs_no_redis_and_stops_what_is_about_to_start(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UMBEL_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("UMBEL_TOOLS", "no_such_module")
    call = load_call(database, dispatched(database, CHANGE).calls[0])
    assert call is not None
    say_command("deny", "tenant", "incident 7", None, is_json=True)
    assert record_intent(database, call, ME) is None


def test_a_tool_that_nobody_here_has_is_remarked_upon(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    say_command("deny", "tool:lst_files", "recalled", None, is_json=True)
    said = json.loads(capsys.readouterr().out)
    assert "no tool 'lst_files'" in said["note"]
    assert rules(database) == [Rule("tool", "lst_files", "deny")]


def test_what_counts_is_listed_and_the_whole_record_on_demand(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    words: tuple[tuple[Permission, str], ...] = (
        ("deny", "incident 7"),
        ("allow", "over"),
        ("ask", "audit"),
    )
    for permission, why in words:
        say_command(permission, "tenant", why, None, is_json=True)
    say_command("deny", "tool:list_files", "recalled", None, is_json=True)
    say_command("allow", "tool:list_files", "fixed", None, is_json=True)
    capsys.readouterr()
    assert list_command(None, is_whole=False, is_json=False) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "ask   tenant: every change waits for the owner of its run"
    assert OWNER.user in second
    assert second.endswith(": audit")
    list_command(None, is_whole=True, is_json=True)
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(rule["rev"], rule["is_newest"]) for rule in listed] == [
        (5, True),
        (4, False),
        (3, True),
        (2, False),
        (1, False),
    ]
    assert (listed[0]["thing"], listed[0]["why"]) == ("tool:list_files", "fixed")


def test_other_tenants_have_other_rules(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    say_command("deny", "tenant", "incident 7", None, is_json=True)
    monkeypatch.setenv("UMBEL_TENANT", "else")
    capsys.readouterr()
    list_command(None, is_whole=True, is_json=False)
    assert "nothing is said" in capsys.readouterr().out


def test_who_is_named_may_correct_until_the_thread_is_private_again(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(database)
    assert steer_run(database, run.run_id, BOB, "Wait.", "append") is None
    assert share_command(run.run_id, ["bob", "eve", "bob"], None, is_json=True) == 0
    assert json.loads(capsys.readouterr().out)["collaborators"] == ["bob", "eve"]
    assert steer_run(database, run.run_id, BOB, "Wait.", "append") is not None
    assert share_command(run.thread_id, ["eve"], None, is_json=False) == 0
    assert f"{run.thread_id}: eve may correct its runs" in capsys.readouterr().out
    assert steer_run(database, run.run_id, BOB, "Go.", "append") is None
    share_command(run.thread_id, [], None, is_json=False)
    assert "nobody but you" in capsys.readouterr().out
    [row] = query(database, "SELECT visibility, collaborators FROM threads")
    assert row == {"visibility": "private", "collaborators": []}


def test_nobody_shares_what_is_not_theirs(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(database)
    with pytest.raises(InvalidInput):
        share_command(run.thread_id, [" "], None, is_json=True)
    monkeypatch.setenv("UMBEL_USER", "eve")
    for thread in (run.thread_id, run.run_id, "thr_none"):
        with pytest.raises(NotFound):
            share_command(thread, ["eve"], None, is_json=True)
    assert query(database, "SELECT collaborators FROM threads") == [{"collaborators": []}]
