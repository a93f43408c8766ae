"""The one question is asked wherever something could still be prevented."""

import hashlib

import pytest

from loop.authorize import Rule
from models.approvals import grant_call
from models.authority import say
from models.database import Database
from tests.factories import OWNER, RunWish, a_run, a_tool
from tests.models.story import call_ids, call_states, query, run_row
from tests.tasks.process import a_process, asked, said
from umbel.contracts import Principal
from umbel.errors import NotPermitted

OPERATOR = Principal(tenant=OWNER.tenant, user="operator")
WRITE = a_tool("write", effect="mutation")
FREEZE = Rule("tenant", "", "deny")
REVOKED = Rule("user", OWNER.user, "deny")


def rule(database: Database, wanted: Rule) -> None:
    say(database, OPERATOR, wanted, "incident 7")


@pytest.mark.parametrize(
    ("wanted", "state"),
    [
        (FREEZE, "refused"),
        (Rule("tool", "write", "deny"), "refused"),
        (Rule("target", "prod", "deny"), "refused"),
        (Rule("tenant", "", "ask"), "refused"),
        (Rule("target", "test", "deny"), "returned"),
    ],
)
def test_what_is_said_after_the_decision_counts_at_the_dispatch(
    database: Database, wanted: Rule, state: str
) -> None:
    policy = {"permission_mode": "full_access"}
    run_id = a_run(database, RunWish(tools=(WRITE,), policy=policy)).run_id
    process = a_process(database, WRITE)
    process.model.script.append(asked(("write", '{"where":"./PROD/db"}')))
    process.step(run_id)
    assert call_states(database, run_id) == ["ready"]
    rule(database, wanted)
    process.call(call_ids(database, run_id)[0])
    assert call_states(database, run_id) == [state]
    assert run_row(database, run_id)["step"] == 2


def test_what_is_said_before_the_decision_counts_at_the_decision(database: Database) -> None:
    run_id = a_run(database, RunWish(tools=(WRITE,), policy={"permission_mode": "ask"})).run_id
    rule(database, FREEZE)
    process = a_process(database, WRITE)
    process.model.script.append(asked(("write", "{}")))
    process.step(run_id)
    assert call_states(database, run_id) == ["refused"]


def test_an_approval_does_not_outweigh_a_freeze(database: Database) -> None:
    run_id = a_run(database, RunWish(tools=(WRITE,), policy={"permission_mode": "ask"})).run_id
    process = a_process(database, WRITE)
    process.model.script.append(asked(("write", "{}")))
    process.step(run_id)
    [call_id] = call_ids(database, run_id)
    assert grant_call(database, call_id, OWNER, hashlib.sha256(b"{}").digest()) is not None
    rule(database, FREEZE)
    process.call(call_id)
    assert call_states(database, run_id) == ["refused"]
    assert query(database, "SELECT * FROM receipts") == []


def test_whoever_was_revoked_is_neither_let_in_nor_told_anything(database: Database) -> None:
    run_id = a_run(database).run_id
    rule(database, REVOKED)
    with pytest.raises(NotPermitted, match="withdrawn"):
        a_run(database)
    process = a_process(database)
    process.model.script.append(said("The secret."))
    process.step(run_id)
    row = run_row(database, run_id)
    assert (row["status"], row["reason"], row["answer"]) == ("paused", "access_withdrawn", None)
    assert query(database, "SELECT * FROM deliveries") == []
