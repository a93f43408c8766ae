"""What people do in a case, through the product's own verbs; and how they were answered."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from locks.wake_ups import WakeUps
from models.database import Database
from models.sources import Notice
from tasks.owner_verbs import OwnerVerbs
from tasks.ringing import Ringer
from tasks.source_notices import note_source
from tests.cases.happenings import Event
from tests.cases.limits import limits_of
from tests.cases.world import World
from umbel.contracts import CallId, Principal, RunId
from umbel.errors import Rejected

TENANT: Final = "cases"
_CALL: Final = (
    "SELECT id, args_text FROM calls WHERE run_id = %(run_id)s AND model_id = %(model_id)s"
)
_SHARE: Final = """
UPDATE threads SET visibility = %(visibility)s, collaborators = %(collaborators)s::text[]
WHERE id = (SELECT thread_id FROM runs WHERE id = %(run_id)s)
"""
_OUTCOMES: Final[Mapping[str, Any]] = {"did_not_happen": "not_happened"}
"""Words of the case format that the product says otherwise."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Where people give their commands."""

    database: Database
    ringer: Ringer
    wake_ups: WakeUps

    def command(self, world: World, event: Event) -> str:
        """Give one command; `accepted`, `no_effect` where it was so already, or `refused`."""
        named = event.get("by", "owner")
        user = world.case.run.get("owner", "owner") if named == "owner" else named
        who = Principal(tenant=TENANT, user=user)
        verbs = OwnerVerbs(self.database, self.ringer, self.wake_ups, who)
        try:
            is_new = _VERBS[event["do"]](self, verbs, world, event)
        except Rejected:
            return "refused"
        return "accepted" if is_new else "no_effect"

    def share(self, world: World) -> None:
        """Let the case's collaborators know of the run."""
        run = world.case.run
        if not run.get("public") and not run.get("collaborators"):
            return
        parameters = {
            "run_id": world.run_id,
            "visibility": "public" if run.get("public") else "private",
            "collaborators": list(run.get("collaborators", [])),
        }
        self.database.run((_SHARE, parameters))


def source_of(name: str) -> str:
    """The product's name of a source message of a case."""
    return f"message:{name}"


def _edit_source(desk: Desk, _: OwnerVerbs, world: World, event: Event) -> bool:
    is_deleted = event["do"] == "delete_source"
    notice = Notice(source_of(event["source"]), is_deleted=is_deleted, text=event.get("text"))
    ring = desk.ringer.ring_step
    return note_source(desk.database, desk.wake_ups, ring, TENANT, notice).is_new


def _steer(_: Desk, verbs: OwnerVerbs, world: World, event: Event) -> bool:
    run_id = RunId(world.run_id)
    return verbs.steer(run_id, event["text"], event.get("mode", "redirect")).is_new


def _stop(_: Desk, verbs: OwnerVerbs, world: World, event: Event) -> bool:
    return verbs.stop(RunId(world.run_id)).is_new


def _resume(_: Desk, verbs: OwnerVerbs, world: World, event: Event) -> bool:
    limits = limits_of(event.get("limits", {}))
    return verbs.resume(RunId(world.run_id), limits=limits).is_new


def _verify(desk: Desk, verbs: OwnerVerbs, world: World, event: Event) -> bool:
    parameters = {"run_id": world.run_id, "model_id": event["call"]}
    [rows] = desk.database.run((_CALL, parameters))
    outcome = _OUTCOMES.get(event["outcome"], event["outcome"])
    found = event.get("text", "Its owner has looked into it.")
    return verbs.verify(CallId(rows[0]["id"]), outcome, found).is_new


def _approve(desk: Desk, verbs: OwnerVerbs, world: World, event: Event) -> bool:
    parameters = {"run_id": world.run_id, "model_id": event["call"]}
    [rows] = desk.database.run((_CALL, parameters))
    text = str(rows[0]["args_text"])
    # What the approver saw: the very bytes, unless the case says that it was something else.
    seen = text if event.get("args", json.loads(text)) == json.loads(text) else "something else"
    sha = hashlib.sha256(seen.encode()).digest()
    call_id = CallId(rows[0]["id"])
    if event["do"] == "deny":
        return verbs.deny(call_id, sha, event.get("text", "")).is_new
    return verbs.approve(call_id, sha).is_new


_VERBS: Final[dict[str, Callable[[Desk, OwnerVerbs, World, Event], bool]]] = {
    "steer": _steer,
    "stop": _stop,
    "resume": _resume,
    "verify": _verify,
    "approve": _approve,
    "deny": _approve,
    "edit_source": _edit_source,
    "delete_source": _edit_source,
}
COMMANDS: Final = frozenset(_VERBS)
