"""Tells a run's events to somebody who watches it from its beginning: `umbel run`."""

from collections.abc import Iterator
from typing import Final, cast

from models.events import Event
from models.happenings import Happening
from models.runs import RunRow
from models.showing import ShownAttempt, ShownCall
from umbel.cli.moments import (
    CallAsked,
    CallSettled,
    Moment,
    RunNoted,
    StepDecided,
    StepRetried,
    StepStarted,
)
from umbel.cli.story import OUTCOMES

_SILENT: Final = ("run.accepted", "delivery.delivered", "run.completed", "run.paused", "run.failed")
"""Events that are told by other moments: the run's acceptance and its end."""


class RunStory:
    """The moments of one run, event by event."""

    def __init__(self) -> None:
        self._asked: set[str] = set()

    def tell(self, _run: RunRow, happening: Happening) -> Iterator[Moment]:
        """What there is to show of an event; the rows beside it may be ahead of it."""
        event, call, attempt = happening.event, happening.call, happening.attempt
        match event.kind:
            case "step.claimed":
                yield StepStarted(
                    step=event.data["step"],
                    claim=event.data["claim"],
                    worker=happening.worker or "",
                )
            case "step.decided" if attempt is not None:
                yield _decided(attempt)
            case "step.retry":
                yield _retried(event)
            case kind if kind.startswith("call."):
                if call is not None:
                    yield from self._call(call, kind)
            case kind if kind not in _SILENT:
                yield RunNoted(event=kind, detail=cast("str | None", event.data.get("detail")))
            case _:
                return

    def _call(self, call: ShownCall, kind: str) -> Iterator[Moment]:
        if call.call_id not in self._asked:
            self._asked.add(call.call_id)
            yield CallAsked(
                call_id=call.call_id,
                step=call.step,
                position=call.position,
                tool=call.tool,
                effect=call.effect,
                arguments=call.args_text,
            )
        state = kind.removeprefix("call.")  # the event's own: the row may be ahead of it
        if state in OUTCOMES:
            yield _settled(call, state)
        elif state == "intent":
            yield RunNoted(event=kind, detail=f"{call.tool} {call.call_id}")


def _decided(attempt: ShownAttempt) -> Moment:
    return StepDecided(
        step=attempt.step,
        attempt=attempt.attempt,
        decision=attempt.decision or "",
        text=attempt.text,
        model=attempt.model,
        input_tokens=attempt.input_tokens,
        output_tokens=attempt.output_tokens,
        total_tokens=attempt.total_tokens,
        seconds=attempt.seconds,
    )


def _retried(event: Event) -> Moment:
    return StepRetried(
        step=event.data["step"],
        attempt=event.data["attempt"],
        cause=event.data["cause"],
        wait_seconds=event.data["wait_seconds"],
        detail=event.data["detail"],
    )


def _settled(call: ShownCall, state: str) -> Moment:
    return CallSettled(
        call_id=call.call_id,
        step=call.step,
        position=call.position,
        tool=call.tool,
        effect=call.effect,
        state=state,
        result=call.view,
        result_chars=call.result_chars,
        receipt=call.receipt,
        seconds=call.seconds,
    )
