"""Which run comes to which fault point, and how a run that was hurt there must end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Literal

from tests.chaos.crash_hook import ANY, BEAT, Action
from tests.chaos.points_commands import COMMANDS
from umbel.faults import POINTS

Tool = Literal[
    "read_note",
    "send_mail",
    "slow_mail",
    "long_note",
    "thick_note",
    "lost_tool",
    "read_source",
    "source_and_mail",
]
"""A read, a change, a change that reports progress, a read in chunks, a large read, a read
that nobody has, a read that names its source, the same beside a slow change.
"""
Verb = Literal["accept", "follow_on", "stop", "steer", "verify", "resume", "notice", "approve"]

OF_RUN: Final = "run"
ACTIONS: Final[Sequence[Action]] = ("kill", "pause", "raise", "delay")


@dataclass(frozen=True, slots=True)
class Order:
    """What is to happen at a point, once: to the run in question, to beat, or to anybody."""

    point: str
    action: Action
    who: str = OF_RUN


@dataclass(frozen=True, slots=True)
class Way:
    """A run that comes to a point: its tool, what owners do to it, what is hurt before."""

    tool: Tool = "send_mail"
    leads: tuple[Order, ...] = ()
    verbs: tuple[Verb, ...] = ("accept",)

    @property
    def asks_first(self) -> bool:
        """Whether its changes need the owner."""
        return "approve" in self.verbs


@dataclass(frozen=True, slots=True)
class Ends:
    """How a run must end if nothing hurts it but its own orders."""

    asked: int = 2
    """Requests the model gets; a reply that was lost in memory has to be asked for again."""
    executed: int = 1
    """Times the tool does its work."""
    status: str = "completed"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Hurt:
    """One run, hurt at one point; or delayed at every point of its way."""

    way: Way
    orders: tuple[Order, ...]
    ends: Ends | None = field(default=None)
    """None: only what holds for every run."""

    def __str__(self) -> str:
        return f"{self.orders[0].action} {self.orders[0].point} {self.way.tool}"


UNSENT: Final = Ends(asked=1, executed=0, status="paused", reason="unknown_outcome")
SENT: Final = Ends(asked=1, executed=1, status="paused", reason="unknown_outcome")
MISSING: Final = Ends(asked=1, executed=0, status="paused", reason="contract_mismatch")
MISMATCHED: Final = Ends(asked=0, executed=0, status="paused", reason="contract_mismatch")
FAILED: Final = Ends(asked=0, executed=0, status="failed", reason="corrupt_record")
ASKED_AGAIN: Final = Ends(asked=3)
SUMMARISED: Final = Ends(asked=4, executed=2)
SUMMARISED_AGAIN: Final = Ends(asked=5, executed=2)
READ_AGAIN: Final = Ends(executed=2)
UNREAD: Final = Ends(executed=0)

MAIL: Final = Way()
ASKED: Final = Way(verbs=("accept", "approve"))
READ: Final = Way("read_note")
SLOW: Final = Way("slow_mail")
LONG: Final = Way("long_note")
THICK: Final = Way("thick_note")
LOST: Final = Way("lost_tool")
UNHEARD: Final = Way(leads=(Order("step.claim_committed", "raise"),))
BACK: Final = Way(leads=(Order("step.claimed", "raise"),))
DRAINED: Final = Way(leads=(Order("step.claimed", "drain"),))
CHANGED: Final = Way(leads=(Order("step.claimed", "change"),))
BROKEN: Final = Way(leads=(Order("step.claimed", "break"),))
UNAPPLIED: Final = Way(leads=(Order("decide.pre_commit", "raise"),))
FORGOTTEN: Final = Way(leads=(*BACK.leads, Order("step.hand_back_pre", "raise")))
CUT: Final = Way("read_note", (Order("call.started", "cut"),))
ABANDONED: Final = Way(leads=(Order("call.intent_saved", "raise"),))
ABANDONED_READ: Final = Way("read_note", (Order("call.started", "raise"),))
LEFT: Final = Way(leads=(Order("step.claimed", "kill"),))
LEFT_CHUNK: Final = Way("long_note", (Order("call.capture_post", "kill"),))
LEFT_CHANGE: Final = Way(leads=(Order("call.intent_saved", "kill"),))
DEADLY: Final = Way("read_note", (Order("call.started", "kill"),) * 3)
FOLLOWED: Final = Way(leads=ABANDONED.leads, verbs=("accept", "follow_on"))
REFUSED: Final = Way(leads=(Order("ring.pre_send", "refuse", BEAT),))
STEERED: Final = Way(verbs=("accept", "steer"))
STOPPED: Final = Way(verbs=("accept", "stop"))
RESUMED: Final = Way(verbs=("accept", "stop", "resume"))
NOTICED: Final = Way("read_source", verbs=("notice", "accept"))
TOLD: Final = Way("source_and_mail", verbs=("accept", "notice"))
VERIFIED: Final = Way(leads=ABANDONED.leads, verbs=("accept", "verify", "resume"))

WAYS: Final[Mapping[str, tuple[Way, ...]]] = {
    **dict.fromkeys(POINTS, (MAIL,)),
    **dict.fromkeys(("step.release_pre", "step.release_post"), (UNHEARD,)),
    **dict.fromkeys(("step.hand_back_pre", "step.hand_back_post"), (BACK, DRAINED)),
    **dict.fromkeys(("step.fail_pre", "step.fail_post"), (BROKEN,)),
    **dict.fromkeys(("reply.book_pre", "reply.book_post"), (UNAPPLIED,)),
    **dict.fromkeys(("reconcile.give_back_pre", "reconcile.give_back_post"), (FORGOTTEN,)),
    **dict.fromkeys(("step.pause_pre", "step.pause_post"), (CHANGED,)),
    **dict.fromkeys(("call.leave_pre", "call.leave_post"), (LOST,)),
    **dict.fromkeys(("call.give_up_pre", "call.give_up_post"), (LOST,)),
    **dict.fromkeys(("call.hand_back_pre", "call.hand_back_post"), (CUT,)),
    **dict.fromkeys(("call.abandon_pre", "call.abandon_post"), (ABANDONED, ABANDONED_READ)),
    **dict.fromkeys(
        ("call.start_committed", "call.effect_done", "call.receipt_pre", "call.receipt_post"),
        (MAIL, READ),
    ),
    "call.started": (READ,),
    **dict.fromkeys(("call.progress_saved", "call.resource_saved"), (SLOW,)),
    **dict.fromkeys(("call.capture_pre", "call.capture_post"), (LONG,)),
    **dict.fromkeys(("compact.in_flight", "compact.answered", "compact.post_commit"), (THICK,)),
    "sweep.captures": (LEFT_CHUNK,),
    "sweep.promoted": (FOLLOWED,),
    "sweep.taken_over": (LEFT,),
    "sweep.settled": (LEFT_CHANGE,),
    **dict.fromkeys(("sweep.give_up_pre", "sweep.give_up_post"), (DEADLY,)),
    "sweep.take_back_pre": (REFUSED,),
    "stop.post_commit": (STOPPED,),
    "steer.post_commit": (STEERED,),
    "verify.post_commit": (VERIFIED,),
    **dict.fromkeys(("refresh.begin_pre", "refresh.begin_post"), (NOTICED,)),
    "source.recorded": (NOTICED,),
    "source.told": (TOLD,),
    "resume.post_commit": (RESUMED,),
}
"""The runs that come to each point."""

OF_ANYBODY: Final = frozenset(
    point
    for point in POINTS
    if point
    in ("call.received", "next.marked", "ring.pre_send", "ring.post_send", "source.recorded")
    or (point.startswith("sweep.") and "give_up" not in point)
)
"""Points that know no run: whoever comes first is hurt, and its runs only lose time by it."""

_OF_WAY: Final = {
    LOST: MISSING,
    CHANGED: MISMATCHED,
    BROKEN: FAILED,
    DEADLY: UNREAD,
    THICK: SUMMARISED,
    **dict.fromkeys((ABANDONED, LEFT_CHANGE, FOLLOWED), UNSENT),
    **dict.fromkeys((STEERED, STOPPED, RESUMED, VERIFIED, TOLD), None),
    NOTICED: READ_AGAIN,
}
_DIES_OR_RAISES: Final = ("kill", "raise")
_EXACTLY: Final[Mapping[tuple[str, str, str], Ends]] = {
    **{
        # A process that lives saves the reply it has paid for; a dead one cannot.
        (point, "kill", "send_mail"): ASKED_AGAIN
        for point in ("model.answered", "decide.pre_commit", "decide.applying")
    },
    **{("reply.book_pre", action, "send_mail"): ASKED_AGAIN for action in _DIES_OR_RAISES},
    **{
        (point, action, "send_mail"): Ends()
        for point in ("step.pause_pre", "step.fail_pre")
        for action in _DIES_OR_RAISES
    },
    **{
        (point, action, "send_mail"): UNSENT
        for point in ("call.start_committed", "call.intent_saved")
        for action in _DIES_OR_RAISES
    },
    **{
        (point, action, tool): ends
        for point in ("call.effect_done", "call.receipt_pre")
        for action in _DIES_OR_RAISES
        for tool, ends in (("send_mail", SENT), ("read_note", READ_AGAIN))
    },
    **{("compact.answered", action, "thick_note"): SUMMARISED_AGAIN for action in _DIES_OR_RAISES},
    **{
        (point, action, "slow_mail"): UNSENT
        for point in ("call.progress_saved", "call.resource_saved")
        for action in _DIES_OR_RAISES
    },
}


def hurts(actions: Sequence[Action], *, repeat: int = 1) -> list[Hurt]:
    """Every point with each of the actions, on every way that leads there.

    Args:
        actions: what happens at the points.
        repeat: times each point and action is hit, at least; in turn on its ways.
    """
    return list(chain.from_iterable(_hurts_of(action, repeat) for action in actions))


def _hurts_of(action: Action, repeat: int) -> Iterator[Hurt]:
    if action == "delay":
        for hurt in _delays():
            yield from [hurt] * repeat
        return
    for point, usual in WAYS.items():
        ways = usual if action not in COMMANDS else _raced(usual)
        for number in range(max(repeat, len(ways))):
            way = ways[number % len(ways)]
            order = Order(point, action, _who(point))
            yield Hurt(way, (order,), None if action in COMMANDS else _ends(way, order))


def _raced(ways: tuple[Way, ...]) -> tuple[Way, ...]:
    """The same, and the run that waits for its owner on its way through the same points."""
    return (*ways, ASKED) if MAIL in ways else ways


def _delays() -> Iterator[Hurt]:
    """A run for each way, held up a little at every point that it comes to; one for any run's."""
    for way in dict.fromkeys(chain.from_iterable(WAYS.values())):
        orders = [Order(point, "delay", _who(point)) for point, ways in WAYS.items() if way in ways]
        own = tuple(order for order in orders if order.who == OF_RUN)
        for together in (own, *((order,) for order in orders if order not in own)):
            if together:
                yield Hurt(way, together, _OF_WAY.get(way, Ends()))


def _who(point: str) -> str:
    return ANY if point in OF_ANYBODY else OF_RUN


def _ends(way: Way, order: Order) -> Ends | None:
    usual = _OF_WAY.get(way, Ends())
    return _EXACTLY.get((order.point, order.action, way.tool), usual)
