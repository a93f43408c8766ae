"""Follows one run: durable events from PostgreSQL, and between them what the model is writing.

PostgreSQL decides what happened. The live stream is only for eyes: without it the same moments
come, a reply at a time.
"""

from collections.abc import Callable, Iterator
from threading import Event as Pause
from typing import Final, cast

import redis

from locks.live import Delta, LiveReader
from models.database import Database
from models.events import Event, read_events
from models.runs import find_run
from models.showing import find_attempt, find_call
from umbel.cli.moments import (
    CallAsked,
    CallSettled,
    ModelText,
    Moment,
    Progress,
    RunNoted,
    StepDecided,
    StepRetried,
    StepStarted,
)
from umbel.contracts import RunId
from umbel.names import SETTLED_STATUSES

POLL_SECONDS: Final = 0.1
_SILENT: Final = ("run.accepted", "delivery.delivered", "run.completed", "run.paused", "run.failed")
"""Events that are told by other moments: the run's acceptance and its end."""
_ENDS: Final = ("run.completed", "run.paused", "run.failed", "run.cancelled")
_LOOKS_PER_STATUS: Final = 10
"""The run's row is looked at once a second: an end without an event must not go unseen."""


class Follower:
    """Turns one run's events and live text into moments, until the run stands still."""

    def __init__(
        self,
        database: Database,
        live: LiveReader,
        run_id: RunId,
        *,
        check: Callable[[], None],
    ) -> None:
        """Take what is read, and `check`, which raises when following is pointless."""
        self._database = database
        self._live: LiveReader | None = live
        self._run_id = run_id
        self._check = check
        self._seq = 0
        self._step = 0
        self._asked: set[str] = set()
        self._held: list[Delta] = []
        self._pause = Pause()

    def moments(self) -> Iterator[Moment]:
        """Every moment in order; ends when the run is settled.

        Raises:
            Unavailable: PostgreSQL does not answer, or what `check` raises.
        """
        looks = 0
        while True:
            self._check()
            yield from self._pieces(POLL_SECONDS)
            with self._database.begin() as connection:
                events = read_events(connection, self._run_id, self._seq)
            # All pieces of a reply are sent before its decision is committed: show them first.
            if events:
                yield from self._pieces(0.001)
            for event in events:
                self._seq = event.seq
                yield from self._moments_of(event)
            looks = 0 if events else looks + 1
            is_end = any(event.kind in _ENDS for event in events)
            if (is_end or looks % _LOOKS_PER_STATUS == 1) and self._is_settled():
                return

    def _is_settled(self) -> bool:
        with self._database.begin() as connection:
            run = find_run(connection, self._run_id)
        return run is not None and run.status in SETTLED_STATUSES

    def _pieces(self, wait_seconds: float) -> Iterator[Moment]:
        """New pieces of text; those of a step that has not been shown as started wait for it."""
        self._held.extend(self._read_live(wait_seconds))
        yield from self._due_pieces()

    def _due_pieces(self) -> Iterator[Moment]:
        due = [delta for delta in self._held if delta.step <= self._step]
        self._held = [delta for delta in self._held if delta.step > self._step]
        for delta in due:
            yield ModelText(
                step=delta.step, attempt=delta.attempt, kind=delta.kind, text=delta.text
            )

    def _read_live(self, wait_seconds: float) -> list[Delta]:
        if self._live is None:
            self._pause.wait(wait_seconds)
            return []
        try:
            return list(self._live.read(wait_seconds))
        except redis.RedisError:
            self._live = None
            return []

    def _moments_of(self, event: Event) -> Iterator[Moment]:
        data = event.data
        match event.kind:
            case "step.claimed":
                self._step = data["step"]
                yield StepStarted(step=data["step"], claim=data["claim"], worker=data["worker"])
                yield from self._due_pieces()
            case "step.decided":
                yield self._decided(event)
            case "step.retry":
                yield StepRetried(
                    step=data["step"],
                    attempt=data["attempt"],
                    cause=data["cause"],
                    wait_seconds=data["wait_seconds"],
                    detail=data["detail"],
                )
            case kind if kind.startswith("call.") and event.ref is not None:
                yield from self._call(event.ref, kind)
            case kind if kind not in _SILENT:
                yield RunNoted(event=kind, detail=cast("str | None", data.get("detail")))
            case _:
                return

    def _decided(self, event: Event) -> Moment:
        step, attempt = event.data["step"], event.data["attempt"]
        with self._database.begin() as connection:
            row = find_attempt(connection, self._run_id, step, attempt)
        if row is None:
            return Progress(topic="note", text=f"step {step} has no model call {attempt}")
        return StepDecided(
            step=step,
            attempt=attempt,
            decision=event.data["decision"],
            text=row.text,
            model=row.model,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            total_tokens=row.total_tokens,
            seconds=row.seconds,
        )

    def _call(self, call_id: str, kind: str) -> Iterator[Moment]:
        with self._database.begin() as connection:
            call = find_call(connection, call_id)
        if call is None:
            return
        if call_id not in self._asked:
            self._asked.add(call_id)
            yield CallAsked(
                call_id=call_id,
                step=call.step,
                position=call.position,
                tool=call.tool,
                effect=call.effect,
                arguments=call.args_text,
            )
        # The event's own state: the row may be ahead of it, and its turn comes.
        state = kind.removeprefix("call.")
        if state in ("returned", "refused", "errored", "skipped", "unknown"):
            yield CallSettled(
                call_id=call_id,
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
        elif state == "intent":
            yield RunNoted(event=kind, detail=f"{call.tool} {call_id}")
