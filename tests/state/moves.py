"""What one process may do next, and what all moves share.

A move is one transaction, or one thing that the outside world can see. Between two moves of a
process anything else may happen, also its end.
"""

from typing import Final, NamedTuple

from tests.state.record import Worker
from tests.state.world import IDLE, Message, Mind, Moment

OUTSIDE: Final = -2
"""Whoever acts is none of the two processes."""
RESUMES: Final = "owner resumes"


class Move(NamedTuple):
    """One thing that may happen now."""

    says: str
    who: Worker
    after: Moment
    fault: str = ""
    """The budget it takes from; empty: the system does it by itself."""


def through(moment: Moment, slot: Worker, bells: tuple[Message, ...]) -> Moment:
    """It has still to ring, and to let its lock go: or it is through."""
    new = tuple(bell for bell in bells if bell not in moment.mail)
    if new or moment.lock == slot:
        return moment.thinking(slot, Mind("ringing", bells=new))
    return moment.thinking(slot, IDLE)
