"""Faults planted in the product, which the harness must find: one that never fails proves nothing.

Each changes a worker process after it has loaded the product (mutated.py); scene.py arms it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from loop.outcome import Errored, Unknown
from models import calls, hot, hot_settle, hot_sweep, sweeping
from models.calls import CallRow, Settled, Started
from models.database import Database
from models.outcomes import change_outcome, outcome_parameters
from scheduler.sweeper import Sweeper
from tasks import claiming, record_watch, step, tool_call
from tools import execution
from tools.definition import Tool
from tools.result import error_text
from umbel.contracts import CallId, RunId, WorkerId
from umbel.preflight import Cleared

MUTANT: Final = "UMBEL_TEST_CHAOS_MUTANT"
"""The variable that arms one, by its name."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault, and the rules of which it breaks at least one."""

    plant: Callable[[], None]
    breaks: tuple[str, ...]


def _send_again() -> None:
    """A change whose answer was lost is sent once more."""
    run_tool = _taken(tool_call, "run_tool")

    def run_until_known(*arguments: Any, **options: Any) -> Any:
        outcome = run_tool(*arguments, **options)
        return run_tool(*arguments, **options) if isinstance(outcome, Unknown) else outcome

    _replace(tool_call, "run_tool", run_until_known)


def _take_errors_for_certain() -> None:
    """Whatever a tool raises counts as proof that nothing was done."""

    def failed(_tool: Tool, error: BaseException) -> Errored:
        return Errored(error_text("failed", f"{type(error).__name__}: nothing was done."))

    _replace(execution, "_failed", failed)


def _take_lost_changes_for_undone() -> None:
    """The sweeper says of a change whose worker died that it was not done."""

    def settle_as_not_done(
        database: Database,
        *,
        call_id: CallId,
        run_id: RunId,
        attempt: int,
        dead_after_seconds: float,
    ) -> Settled | None:
        outcome = Errored(error_text("lost", "Its worker was lost; nothing was done."))
        parameters = outcome_parameters(outcome, outcome.text)
        parameters |= change_outcome(outcome) | {
            "call_id": call_id,
            "run_id": run_id,
            "attempt": attempt,
            "only_if_lost": True,
            "dead_after": dead_after_seconds,
        }
        return calls._settle(database, (hot_settle.SETTLE_CHANGE, parameters), is_patient=False)

    _replace(sweeping, "settle_lost_change", settle_as_not_done)


def _forget_the_dead() -> None:
    """Nobody takes a run from a dead holder."""
    _cut(hot_sweep, "TAKE_OVER", "WHERE r.work = 'held' AND", "WHERE false AND")


def _ring_once() -> None:
    """What was announced and got lost is never announced again, nor found in the record."""
    _replace(Sweeper, "_ring", lambda _sweeper: 0)
    for place in (claiming, record_watch):
        _replace(place, "find_next", lambda *_: None)


def _take_a_repeat_for_new() -> None:
    """A second message for a change that is on its way sends it again."""
    load_call, record_intent = _taken(tool_call, "load_call"), _taken(tool_call, "record_intent")

    def load_as_ready(database: Database, call_id: CallId) -> CallRow | None:
        call: CallRow | None = load_call(database, call_id)
        is_open = call is not None and call.state == "started" and call.effect == "mutation"
        return replace(call, state="ready") if call is not None and is_open else call

    def intend_again(database: Database, call: CallRow, worker: WorkerId) -> Started | None:
        query = "SELECT args_text FROM calls WHERE id = %(call_id)s AND state = 'started'"
        [rows] = database.run((query, {"call_id": call.call_id}))
        if rows:
            return Started(call, worker, 1, rows[0]["args_text"])
        started: Started | None = record_intent(database, call, worker)
        return started

    _replace(tool_call, "load_call", load_as_ready)
    _replace(tool_call, "record_intent", intend_again)


def _answer_without_listening() -> None:
    """An answer counts although a correction came that it has not heard."""
    _cut(hot, "DECIDE_ANSWER", " AND steers = %(steers)s", "")


def _ask_nobody() -> None:
    """A change of a run that asks is sent without its owner's approval."""
    _replace(step, "permission_check", lambda *_: lambda call: Cleared(call.arguments_text))
    _replace(tool_call, "refusal_of", lambda *_: None)


MUTANTS: Final = {
    "send_again": Mutant(_send_again, ("change done twice",)),
    "errors_are_certain": Mutant(_take_errors_for_certain, ("false receipt",)),
    "lost_is_undone": Mutant(_take_lost_changes_for_undone, ("false receipt",)),
    "forget_the_dead": Mutant(_forget_the_dead, ("unsettled run",)),
    "ring_once": Mutant(_ring_once, ("unsettled run",)),
    "repeat_is_new": Mutant(_take_a_repeat_for_new, ("change done twice",)),
    "ask_nobody": Mutant(_ask_nobody, ("change without approval",)),
    "answer_unheard": Mutant(_answer_without_listening, ("broken rule of the record",)),
}


def _taken(place: object, name: str) -> Any:
    """What stands under a name now; a module's imported names count."""
    return getattr(place, name)


def _replace(place: object, name: str, value: object) -> None:
    """Put something else in the place of a name that must exist."""
    _taken(place, name)
    setattr(place, name, value)


def _cut(module: Any, name: str, old: str, new: str) -> None:
    """Change a statement; it must hold what is changed, or the fault is none."""
    statement: str = getattr(module, name)
    if old not in statement:
        raise AssertionError(f"{name} has no {old!r}: the planted fault must be written anew")
    setattr(module, name, statement.replace(old, new))
