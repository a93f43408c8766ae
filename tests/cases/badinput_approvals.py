"""Bad inputs that aim at the owner's word: approval by injected text, approval of other bytes."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from models.approval_cards import Card, open_cards
from models.approvals import grant_call
from models.calls import load_call, record_intent
from tasks.owner_verbs import OwnerVerbs
from tests.cases.actions import Stage
from tests.cases.badinput_scripts import case_data, tool_taking_anything
from tests.cases.commands import TENANT
from tests.cases.scripted_tools import real_name
from tests.cases.world import World
from tests.models.two_sessions import Holding, holding
from umbel.contracts import CallId, Principal, RunId, WorkerId
from umbel.errors import Conflict

_OWNER: Final = Principal(tenant=TENANT, user="owner")
_NOBODY: Final = WorkerId("wrk_of_no_process")
_CHANGE: Final = "delete_repo"
_CHANGE_ARGS: Final = {"name": "prod"}
_CLI_SECONDS: Final = 60
_WORDS: Final = "SELECT word FROM approvals WHERE run_id = %(run_id)s"
_OTHER_BYTES: Final = """
UPDATE calls SET args_text = %(text)s, args_sha = sha256(convert_to(%(text)s, 'UTF8'))
WHERE id = %(call_id)s
"""
# It refuses such a row by itself; without it the statement that starts a change is on its own.
_NO_CHECK: Final = "ALTER TABLE calls DROP CONSTRAINT calls_approved_sha"


def injected_result(given: Mapping[str, Any]) -> dict[str, Any]:
    """A result speaks for the owner; the model obeys it."""
    reads: dict[str, Any] = {"id": "c1", "name": given["tool"], "arguments": {}}
    obeys = {"id": "c2", "name": _CHANGE, "arguments": _CHANGE_ARGS}
    tools = [
        tool_taking_anything(given["tool"], changes=False, result=given["text"]),
        tool_taking_anything(_CHANGE, changes=True),
    ]
    expect = {
        **_waiting("c2", _CHANGE, _CHANGE_ARGS),
        "tool_results": {"c1": {"error": False, "contains": [given["text"]]}},
    }
    return case_data([[reads], [obeys]], tools, expect, policy="ask")


def other_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """A change waits for its owner, who is shown other bytes than would be sent."""
    proposed = given["proposed"]
    call = {"id": "c1", "name": proposed["tool"], "arguments": proposed["args"]}
    tools = [tool_taking_anything(proposed["tool"], changes=True)]
    expect = _waiting("c1", proposed["tool"], proposed["args"])
    return case_data([[call]], tools, expect, policy="ask")


def injected_text_is_only_text(
    given: Mapping[str, Any], stage: Stage, worlds: Sequence[World]
) -> Iterator[str]:
    """What is wrong once the model has obeyed: only a tool said it, and the owner is told so."""
    for world in worlds:
        roles = {
            message["role"]
            for request in world.model.requests
            for message in request.body["messages"]
            if given["text"] in json.dumps(message, ensure_ascii=False)
        }
        if roles != {"tool"}:
            yield f"the injected text was sent as {sorted(roles)}, expected only as a tool's"
        yield from _no_words(stage, world)
    card = _card(stage, worlds[0])
    chars = len(json.dumps(given["text"], ensure_ascii=False))  # evidence is kept as JSON
    wanted = f"untrusted  tool {real_name(given['tool'])} of step 1: {chars} characters"
    shown = _shown(stage, card.call_id)
    if wanted not in shown:
        yield f"`umbel approvals show`: expected {wanted!r} in it, found {shown!r}"


def only_approved_bytes_are_sent(
    given: Mapping[str, Any], stage: Stage, worlds: Sequence[World]
) -> Iterator[str]:
    """What is wrong with approvals whose bytes are not the call's, before and after the word."""
    other = _text_of(given["then_dispatch"])
    with ThreadPoolExecutor(len(worlds)) as pool:
        found = list(pool.map(partial(_approve_others, stage, other), worlds))
    if any(found):
        yield from (line for problems in found for line in problems)
        return
    url = stage.database.engine.url.render_as_string(hide_password=False)
    with holding(url) as session:  # never committed: no other process sees any of it
        session.run((_NO_CHECK, {}))
        for world in worlds:
            yield from _changed_under_approval(session, _card(stage, world, session), other)
    for world in worlds:
        yield from _no_words(stage, world)


def _waiting(case_id: str, tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "status": "paused",  # the format's word for waiting
        "reason": "approval_required",
        "executions": {tool: 0},
        "starts": {tool: 0},
        "actions": {case_id: {"state": "awaiting_approval", "args": args}},
    }


def _approve_others(stage: Stage, other: str, world: World) -> list[str]:
    """Approve what the call does not hold, then what it does not hold any more."""
    card = _card(stage, world)
    if problems := [*_not_refused(stage, card, other)]:
        return problems  # an approved row does not let its bytes be changed
    stage.database.run((_OTHER_BYTES, {"call_id": card.call_id, "text": other}))
    problems = [*_not_refused(stage, card, card.args_text)]
    if not problems:
        stage.database.run((_OTHER_BYTES, {"call_id": card.call_id, "text": card.args_text}))
    return problems


def _not_refused(stage: Stage, card: Card, seen: str) -> Iterator[str]:
    verbs = OwnerVerbs(stage.database, stage.ringer, stage.desk.wake_ups, _OWNER)
    try:
        verbs.approve(card.call_id, hashlib.sha256(seen.encode()).digest())
    except Conflict as refusal:
        if "would send other bytes than those of this hash" not in str(refusal):
            yield f"the refusal does not name the bytes: {str(refusal)!r}"
    else:
        yield f"the hash of {seen!r} approved a call with other bytes"


def _changed_under_approval(session: Holding, card: Card, other: str) -> Iterator[str]:
    """Approve the call as it is, then change its bytes: it starts only with the approved ones."""
    if grant_call(session, card.call_id, _OWNER, bytes.fromhex(card.sha256)) is None:
        yield "the owner could not approve the very bytes of the call"
        return
    session.run((_OTHER_BYTES, {"call_id": card.call_id, "text": other}))
    if _starts(session, card.call_id):
        yield "a call whose bytes changed under its approval was let go"
        return
    session.run((_OTHER_BYTES, {"call_id": card.call_id, "text": card.args_text}))
    if not _starts(session, card.call_id):
        yield "nothing is proved: the call does not start with the approved bytes either"


def _starts(session: Holding, call_id: CallId) -> bool:
    call = load_call(session, call_id)
    return call is not None and record_intent(session, call, _NOBODY) is not None


def _card(stage: Stage, world: World, session: Holding | None = None) -> Card:
    """The only call of the run that asks; `session` where that one keeps others out."""
    run_id = RunId(world.run_id)
    [card] = open_cards(session or stage.database, tenant=TENANT, run_id=run_id)
    return card


def _no_words(stage: Stage, world: World) -> Iterator[str]:
    [words] = stage.database.run((_WORDS, {"run_id": world.run_id}))
    if words:
        yield f"expected no word of the owner in the record, found {words}"


def _shown(stage: Stage, call_id: CallId) -> str:
    """What the command says, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "umbel.cli", "approvals", "show", call_id],
        env={**stage.workers.environment, "UMBEL_TENANT": TENANT, "UMBEL_USER": _OWNER.user},
        capture_output=True,
        text=True,
        timeout=_CLI_SECONDS,
        check=False,
    )
    return done.stdout + done.stderr


def _text_of(args: Mapping[str, Any]) -> str:
    return json.dumps(args, ensure_ascii=False, separators=(",", ":"))
