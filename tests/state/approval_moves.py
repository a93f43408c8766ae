"""What owners answer to a call that asks, and what comes when they do not."""

from collections.abc import Iterator

from tests.state.moves import OUTSIDE, Move
from tests.state.record import UNSTARTED
from tests.state.system import Scenario, System
from tests.state.world import Moment


def answers(moment: Moment, scenario: Scenario, system: System) -> Iterator[Move]:
    """Of the owner; each takes from its budget."""
    rows, left = moment.rows, moment.budget
    for call in rows.calls:
        if left.grants:
            done = system.grant_call(rows, call.ref, scenario.policy.parallel)
            if done.is_done:
                yield Move(f"owner grants {call.ref}", OUTSIDE, moment.after(done), "grants")
        if left.denials and (done := system.deny_call(rows, call.ref)).is_done:
            yield Move(f"owner denies {call.ref}", OUTSIDE, moment.after(done), "denials")


def expiries(moment: Moment, system: System) -> Iterator[Move]:
    """What the sweeper ends because time ran out."""
    for call in moment.rows.calls:
        if (done := system.expire_approval(moment.rows, call.ref)).is_done:
            yield Move(f"sweeper ends {call.ref}: nobody came", OUTSIDE, moment.after(done))


def lapses(moment: Moment) -> Iterator[Move]:
    """Time that runs out; each takes from its budget."""
    for call in moment.rows.calls if moment.budget.lapses else ():
        if call.needs_approval and not call.is_lapsed and call.state in UNSTARTED:
            rows = moment.rows.with_call(call._replace(is_lapsed=True))
            says = f"time to approve or start {call.ref} runs out"
            yield Move(says, OUTSIDE, moment._replace(rows=rows), "lapses")
