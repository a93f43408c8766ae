"""Named points at which a test may hurt the process: `fault("decide.post_commit")`.

Inert unless armed. Arming takes two variables, so that no deployment does it by accident:
`UMBEL_TEST_BUILD=1` and `UMBEL_FAULTS`, a comma separated list of `point:action[:n=K]`.
Actions: `kill` (SIGKILL to this process), `raise` (FaultInjected), `stop` (SIGSTOP), and
`hook` (calls the function named by `UMBEL_FAULT_HOOK`, "module:function", with the point and the
facts given at the call site). `n=K` fires at the K-th hit only; without it, at every hit.
"""

import importlib
import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast, get_args

from umbel.errors import Misconfigured

POINTS: Final[Mapping[str, str]] = {
    "accept.pre_commit": "a request is about to be written",
    "accept.post_commit": "the run exists, nothing has been rung",
    "step.locked": "the lock in Redis is taken, the run is not claimed",
    "step.claim_committed": "the claim is committed, its answer is on its way; raising loses it",
    "step.release_pre": "a run whose claim got no answer is about to be freed",
    "step.release_post": "a run whose claim got no answer is free",
    "step.claimed": "the claim is committed, the request is not built",
    "step.hand_back_pre": "the holder is about to give its run back undecided",
    "step.hand_back_post": "the run is ready again, undecided",
    "step.pause_pre": "the holder is about to pause its run before it has asked anybody",
    "step.pause_post": "the run is paused, nobody was asked",
    "step.fail_pre": "the holder is about to end its run as failed",
    "step.fail_post": "the run has failed",
    "step.rung": "the step is over, and what it made ready has been rung",
    "model.in_flight": "the attempt is recorded, the request is about to be sent",
    "model.answered": "the reply is in memory only",
    "compact.in_flight": "the row of a summary is open, the request for it is about to be sent",
    "compact.answered": "the summary is in memory only",
    "compact.post_commit": "the summary is booked and applied if it holds, the step not asked for",
    "reply.book_pre": "a reply is about to be booked without a decision",
    "reply.book_post": "usage and reply are booked alone",
    "decide.pre_commit": "the decision is about to be written",
    "decide.applying": "the decision is about to be applied; raising books the reply alone",
    "decide.post_commit": "usage, reply, decision and calls are committed, nothing has been rung",
    "call.received": "a tool worker has read the message",
    "call.leave_pre": "a call whose tool is missing here is about to be left to others",
    "call.leave_post": "this look is counted, nothing has been rung",
    "call.give_up_pre": "a call that may not or cannot be started is about to be refused",
    "call.give_up_post": "refusal and join are committed, nothing has been rung",
    "call.pre_intent": "a change is about to be recorded as intended",
    "call.start_committed": "start or intent is committed, its answer is on its way",
    "call.intent_saved": "the intent is committed, the change has not been sent",
    "call.started": "a read is recorded as started",
    "call.progress_saved": "a running tool has moved its deadline",
    "call.resource_saved": "a running change has named what it made, its outcome is not known",
    "call.capture_pre": "a part of a long result, or a picture, is about to be written",
    "call.capture_post": "it is written, and no outcome names it yet",
    "call.effect_done": "the tool has returned, its outcome is in memory only",
    "call.receipt_pre": "the outcome is about to be written",
    "call.receipt_post": "outcome and join are committed, nothing has been rung",
    "call.hand_back_pre": "a read that was cut short is about to be handed back",
    "call.hand_back_post": "the read is ready again, nothing has been rung",
    "call.abandon_pre": "a call whose outcome is lost is about to be given up",
    "call.abandon_post": "the read is ready again or the change unknown, nothing has been rung",
    "refresh.begin_pre": "what a step rests on has been looked at, nothing is written",
    "refresh.begin_post": "the run is with its refreshes, or ready again; nothing has been rung",
    "source.recorded": "the notice is committed, no run has been told",
    "source.told": "a run has heard of the change, nothing has been rung, others have not heard",
    "next.marked": "a free slot has marked a ready row as announced and not begun it",
    "ring.pre_send": "the row is ready and marked as announced, the message is not sent",
    "ring.post_send": "the message is sent",
    "sweep.promoted": "runs whose turn it is are ready, nothing has been rung",
    "sweep.taken_over": "runs of dead holders are ready, their locks in Redis still stand",
    "sweep.mid": "between two statements of the sweeper",
    "sweep.settled": "calls that nobody can finish are settled, nothing has been rung",
    "sweep.captures": "what lost attempts wrote of their results is removed",
    "sweep.give_up_pre": "a read that has cost too many workers is about to end as an error",
    "sweep.give_up_post": "its error and the join are committed, nothing has been rung",
    "sweep.marked": "due rows are marked as announced, nothing has been sent",
    "sweep.take_back_pre": "the broker took no messages, the rows say that they were announced",
    "sweep.rung": "due rows have been rung",
    "reconcile.give_back_pre": "a living process is about to give back a row it had forgotten",
    "reconcile.give_back_post": "the forgotten row is with others again",
    "stop.post_commit": "the stop holds, its caller has no answer",
    "steer.post_commit": "the correction counts, its caller has no answer",
    "verify.post_commit": "the owner's word is recorded, its caller has no answer",
    "resume.post_commit": "the run is ready again, its caller has no answer, nothing has been rung",
}
"""Every point, and the state of the world at it."""

Action = Literal["kill", "raise", "stop", "hook"]
Hook = Callable[[str, Mapping[str, str]], None]


class FaultInjected(RuntimeError):
    """Raised by an armed point with the action `raise`; never raised in a deployment."""


@dataclass(slots=True)
class _Arm:
    action: Action
    nth: int | None
    hits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_due(self) -> bool:
        with self.lock:
            self.hits += 1
            return self.nth is None or self.hits == self.nth


def _read_environment() -> dict[str, _Arm]:
    text = os.environ.get("UMBEL_FAULTS", "")
    if not text:
        return {}
    if os.environ.get("UMBEL_TEST_BUILD") != "1":
        raise Misconfigured(
            "UMBEL_FAULTS is set without UMBEL_TEST_BUILD=1: faults belong to tests. "
            "Unset UMBEL_FAULTS to start."
        )
    return dict(_parse(item) for item in text.split(","))


def _parse(item: str) -> tuple[str, _Arm]:
    point, action, *options = item.strip().split(":")
    if point not in POINTS:
        raise Misconfigured(f"UMBEL_FAULTS names {point!r}; known points: {', '.join(POINTS)}.")
    if action not in get_args(Action):
        raise Misconfigured(f"UMBEL_FAULTS: action {action!r} is none of {get_args(Action)}.")
    nth = next((int(option[2:]) for option in options if option.startswith("n=")), None)
    return point, _Arm(cast(Action, action), nth)  # membership checked above


_ARMED: Final = _read_environment()


def fault(point: str, **facts: str) -> None:
    """Do nothing, unless a test armed `point`.

    Args:
        point: a key of `POINTS`.
        facts: what a hook may want to know, such as the run or call id.
    """
    if _ARMED and (arm := _ARMED.get(point)) is not None and arm.is_due():
        _fire(point, arm.action, facts)


def _fire(point: str, action: Action, facts: Mapping[str, str]) -> None:
    match action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "raise":
            raise FaultInjected(point)
        case "hook":
            module, _, name = os.environ["UMBEL_FAULT_HOOK"].partition(":")
            hook: Hook = getattr(importlib.import_module(module), name)
            hook(point, facts)
