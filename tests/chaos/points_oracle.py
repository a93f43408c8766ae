"""What must hold for every run that was hurt, by the record and by what the world outside saw."""

from collections.abc import Iterator, Sequence
from typing import Final

from tests.cases.record import Record
from tests.cases.world import World
from tests.chaos.points_commands import COMMANDS
from tests.chaos.points_ways import Ends, Hurt

CHANGES: Final = ("send_mail", "slow_mail")
_DISTURBANCES: Final = ("run.taken_over", "step.handed_back", "step.discarded", "step.fenced_out")
_DECIDED: Final = ("dispatch", "answer")
_LEFT_OUT: Final = ("context.summarised", "context.trimmed")
_ENDS_OF: Final = {
    "break": ("failed", "corrupt_record"),
    "change": ("paused", "contract_mismatch"),
}


def problems_of(hurt: Hurt, world: World, record: Record, *, taken: int) -> list[str]:
    """One line per broken rule.

    Args:
        hurt: what was done to the run.
        world: the model and the tools, as they saw it.
        record: the database's view.
        taken: orders for this very run that were carried out, those before the point included.
    """
    return [
        *world.problems,
        *_status(hurt, record),
        *_changes(world, record),
        *_spending(world, record, taken),
    ]


def losses_by_others(hurt: Hurt, record: Record) -> int:
    """How much more often it lost its worker than it was killed itself.

    A process that hears a message while it carries what it found in the record dies with both.
    """
    kills = sum(order.action == "kill" for order in (*hurt.way.leads, *hurt.orders))
    losses = [event for event in record.events if event["kind"] == "run.taken_over"]
    return max(0, len(losses) - kills)


def differences(ends: Ends, world: World, record: Record, losses: int = 0) -> Iterator[str]:
    """Where the run did not end as one must; each of the `losses` may cost it a model request."""
    run, asked = record.run, len(world.model.requests)
    executed = sum(world.ledger.executions.values())
    if (run["status"], run["reason"]) != (ends.status, ends.reason):
        yield f"ended as {run['status']} ({run['reason']}), not as {ends.status} ({ends.reason})"
    if not ends.asked <= asked <= ends.asked + losses:
        yield f"the model was asked {asked} times, not {ends.asked}"
    if executed != ends.executed:
        yield f"the tool did its work {executed} times, not {ends.executed}"


def unheard(hurt: Hurt, answers: Sequence[str | None], record: Record) -> Iterator[str]:
    """Where a command was accepted and did not count.

    Args:
        hurt: what was done to the run.
        answers: of its commands; None: the run passed by the point.
        record: the database's view, at rest.
    """
    accepted = [
        order.action
        for order, answer in zip(hurt.orders, answers, strict=False)
        if order.action in COMMANDS and answer == "accepted"
    ]
    states = [steer["state"] for steer in record.steers]
    corrections = len([action for action in accepted if action != "stop"])
    # An owner who dies with the correction committed does not know, and says it again.
    repeated = sum(order.point == "steer.post_commit" for order in hurt.orders)
    most = corrections + hurt.way.verbs.count("steer") + repeated
    if not corrections <= len(states) <= most:
        yield f"{corrections} corrections accepted, and the record has {states}"
    if "accepted" in states and record.run["status"] not in ("paused", "failed"):
        yield f"a correction was neither heard nor returned: {states}"
    is_over = record.run["status"] == "cancelled" or "resume" in hurt.way.verbs
    if "stop" in accepted and not is_over:
        yield f"stopped, and ended as {record.run['status']} ({record.run['reason']})"


def _status(hurt: Hurt, record: Record) -> Iterator[str]:
    status, reason = record.run["status"], record.run["reason"]
    kinds = [event["kind"] for event in record.events]
    may_be: set[tuple[str, str | None]] = {("completed", None)}
    if any(call["state"] == "unknown" for call in record.calls):
        may_be = {("paused", "unknown_outcome")}
    if "stop" in hurt.way.verbs or any(order.action == "stop" for order in hurt.orders):
        may_be.add(("cancelled", "owner_stop"))
    if kinds.count("run.taken_over") >= 3:
        may_be.add(("paused", "lost_worker"))
    may_be |= {_ENDS_OF[lead.action] for lead in hurt.way.leads if lead.action in _ENDS_OF}
    if hurt.way.tool == "lost_tool":
        may_be.add(("paused", "contract_mismatch"))
    if "run.resumed" in kinds or "verify" in hurt.way.verbs:
        may_be.add(("paused", "unknown_outcome"))  # known since: the owner has not resumed it again
    if any(call["is_late"] for call in record.calls):
        may_be.add(("paused", "unknown_outcome"))
    if (status, reason) not in may_be:
        yield f"ended as {status} ({reason}); may be {sorted(map(str, may_be))}"


def _changes(world: World, record: Record) -> Iterator[str]:
    """At most once, and never otherwise than the receipt says."""
    done = sum(world.ledger.executions.get(tool, 0) for tool in CHANGES)
    receipts = [call["outcome"] for call in record.calls if call["has_receipt"]]
    if done > 1:
        yield f"the change was made {done} times"
    if receipts.count("done") > done:
        yield f"a receipt says done, the world says {done} times"
    if done and "done" not in receipts and "unknown" not in receipts:
        yield f"the change was made, and its receipts say {receipts}"


def _spending(world: World, record: Record, taken: int) -> Iterator[str]:
    """Every request was decided on, or is the one that a disturbance may cost."""
    asked = len(world.model.requests)
    decided = sum(row["decision"] in _DECIDED for row in record.model_calls)
    decided += sum(event["kind"] in _LEFT_OUT for event in record.events)
    disturbed = sum(event["kind"] in _DISTURBANCES for event in record.events)
    if asked > decided + max(taken, disturbed):
        yield f"{asked} requests for {decided} decisions and {max(taken, disturbed)} disturbances"
    if asked > len(record.model_calls):
        yield f"{asked} requests, and only {len(record.model_calls)} attempts in the record"
