"""Faults planted into worker processes, for the matrix to catch.

Named in UMBEL_TOOLS in place of the scripted tools, it hands those on; `POINTS_MUTANT` names the
fault that the process plants into itself on the way.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from loop.outcome import Errored, Returned, ToolOutcome
from models.calls import CallRow, Settled, Started, record_intent, settle
from models.database import Database
from tasks import step, tool_call
from tests.cases import scripted_tools
from umbel.contracts import WorkerId

MUTANT: Final = "POINTS_MUTANT"
TOOLS: Final = scripted_tools.TOOLS


def planted(mutant: str) -> dict[str, str]:
    """Variables of workers into which the mutant is planted; none for an empty name."""
    return {"UMBEL_TOOLS": __name__, MUTANT: mutant} if mutant else {}


def _intent_after_sending() -> None:
    """The change is sent, and only then written down as intended."""

    def pretend(database: Database, call: CallRow, worker: WorkerId) -> Started | None:
        asked = "SELECT args_text FROM calls WHERE id = %(call_id)s AND state = 'ready'"
        [rows] = database.run((asked, {"call_id": call.call_id}))
        return Started(call, worker, 1, rows[0]["args_text"]) if rows else None

    def settle_intended(
        database: Database, started: Started, outcome: ToolOutcome, *more: Any
    ) -> Settled | None:
        if started.call.effect == "mutation":
            record_intent(database, started.call, started.worker)
        return settle(database, started, outcome, *more)

    _plant(tool_call, "record_intent", pretend)
    _plant(tool_call, "settle", settle_intended)


def _reply_not_booked() -> None:
    """A reply that cannot be applied is thrown away with what it has cost."""
    _plant(step, "book_reply", lambda *_, **__: False)


def _lost_change_undone() -> None:
    """A change whose outcome is lost counts as not done."""
    _plant(tool_call, "Unknown", Errored)


def _lost_change_done() -> None:
    """A change whose outcome is lost counts as done."""
    _plant(tool_call, "Unknown", Returned)


def _plant(module: object, name: str, fault: object) -> None:
    """Replace what the product calls by that name; it must exist."""
    getattr(module, name)
    setattr(module, name, fault)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault, and the points at which it must show."""

    plant: Callable[[], None]
    points: tuple[str, ...]


MUTANTS: Final[Mapping[str, Mutant]] = {
    "intent-after-sending": Mutant(_intent_after_sending, ("call.effect_done", "call.receipt_pre")),
    "reply-not-booked": Mutant(_reply_not_booked, ("model.answered", "decide.applying")),
    "lost-change-undone": Mutant(_lost_change_undone, ("call.effect_done", "call.receipt_pre")),
    "lost-change-done": Mutant(_lost_change_done, ("call.intent_saved", "call.abandon_pre")),
}

if name := os.environ.get(MUTANT):
    MUTANTS[name].plant()
