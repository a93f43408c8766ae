"""What people are shown of a run: its model calls and its tool calls. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, select, text

from models.tables import calls, evidence, model_calls, receipts
from umbel.contracts import RunId
from umbel.names import CallState, Effect


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A tool call with its exact arguments and what came of it."""

    call_id: str
    step: int
    position: int
    tool: str
    effect: Effect
    placement: str
    state: CallState
    attempt: int
    holder: str | None
    """Id of the worker that runs it, or ran it last."""
    args_text: str | None
    """The bytes that were checked and sent; None when the model's own could not be used."""
    view: str | None
    """What the model was shown of the result; None while there is none."""
    result_chars: int | None
    """Length of the whole result."""
    started_at: datetime | None
    settled_at: datetime | None
    receipt: str | None
    """For a change that was sent: `intended`, `done`, `not_done` or `unknown`."""
    is_late: bool
    """The outcome came after the call had been given up as unknown."""

    @property
    def seconds(self) -> float | None:
        """How long the tool worked, or None."""
        if self.started_at is None or self.settled_at is None:
            return None
        return (self.settled_at - self.started_at).total_seconds()


@dataclass(frozen=True, slots=True)
class ShownAttempt:
    """One attempt to get a reply from the model."""

    step: int
    attempt: int
    purpose: str
    """What the model was asked for: `main` the next step, `compact` a summary of earlier ones."""
    state: str
    decision: str | None
    endpoint: str | None
    model: str | None
    error_class: str | None
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cached_input_tokens: int | None
    reasoning_tokens: int | None
    is_estimated: bool
    opened_at: datetime
    closed_at: datetime | None
    text: str | None
    """The words of the reply; None while there is none."""

    @property
    def seconds(self) -> float | None:
        """From the claim to the end of the reply, or None."""
        if self.closed_at is None:
            return None
        return (self.closed_at - self.opened_at).total_seconds()


def calls_of(connection: Connection, run_id: RunId) -> list[ShownCall]:
    """Every tool call of a run, in the order the model asked."""
    asked = _CALLS.where(calls.c.run_id == run_id, calls.c.refreshes.is_(None))
    query = asked.order_by(calls.c.step, calls.c.position)
    return [_call_of(row) for row in connection.execute(query).mappings()]


def find_call(connection: Connection, call_id: str) -> ShownCall | None:
    """One tool call."""
    row = connection.execute(_CALLS.where(calls.c.id == call_id)).mappings().one_or_none()
    return None if row is None else _call_of(row)


def calls_named(connection: Connection, call_ids: Sequence[str]) -> dict[str, ShownCall]:
    """The tool calls of these ids, by id."""
    if not call_ids:
        return {}
    rows = connection.execute(_CALLS.where(calls.c.id.in_(call_ids))).mappings()
    return {row["id"]: _call_of(row) for row in rows}


def attempts_of(connection: Connection, run_id: RunId) -> list[ShownAttempt]:
    """Every attempt to get a reply, oldest first."""
    query = (
        _ATTEMPTS.where(model_calls.c.run_id == run_id)
        .order_by(model_calls.c.step, model_calls.c.attempt)
        .prefix_with(text("/* showing.attempts */"))
    )
    return [ShownAttempt(**row) for row in connection.execute(query).mappings()]


def attempts_in(connection: Connection, run_id: RunId, steps: Sequence[int]) -> list[ShownAttempt]:
    """The attempts of these steps."""
    if not steps:
        return []
    query = _ATTEMPTS.where(model_calls.c.run_id == run_id, model_calls.c.step.in_(steps))
    return [ShownAttempt(**row) for row in connection.execute(query).mappings()]


def find_attempt(
    connection: Connection, run_id: RunId, step: int, attempt: int
) -> ShownAttempt | None:
    """One attempt."""
    query = _ATTEMPTS.where(
        model_calls.c.run_id == run_id,
        model_calls.c.step == step,
        model_calls.c.attempt == attempt,
    )
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else ShownAttempt(**row)


_CALLS: Select[Any] = (
    select(
        calls.c.id,
        calls.c.step,
        calls.c.position,
        calls.c.tool,
        calls.c.effect,
        calls.c.placement,
        calls.c.state,
        calls.c.attempt,
        calls.c.holder,
        calls.c.args_text,
        calls.c.started_at,
        calls.c.settled_at,
        evidence.c.view,
        evidence.c.total_chars,
        receipts.c.outcome,
        receipts.c.is_late,
        receipts.c.intent_at,
    )
    .outerjoin(evidence, evidence.c.call_id == calls.c.id)
    .outerjoin(receipts, receipts.c.call_id == calls.c.id)
    .prefix_with(text("/* showing.calls */"))
)

_ATTEMPTS: Select[Any] = select(
    model_calls.c.step,
    model_calls.c.attempt,
    model_calls.c.purpose,
    model_calls.c.state,
    model_calls.c.decision,
    model_calls.c.endpoint,
    model_calls.c.model,
    model_calls.c.error_class,
    model_calls.c.input_tokens,
    model_calls.c.output_tokens,
    model_calls.c.total_tokens,
    model_calls.c.cached_input_tokens,
    model_calls.c.reasoning_tokens,
    model_calls.c.is_estimated,
    model_calls.c.opened_at,
    model_calls.c.closed_at,
    text("model_calls.reply::json ->> 'text' AS text"),
)


def _call_of(row: RowMapping) -> ShownCall:
    intended = "intended" if row["intent_at"] is not None else None
    return ShownCall(
        call_id=row["id"],
        step=row["step"],
        position=row["position"],
        tool=row["tool"],
        effect=row["effect"],
        placement=row["placement"],
        state=row["state"],
        attempt=row["attempt"],
        holder=row["holder"],
        args_text=row["args_text"],
        view=row["view"],
        result_chars=row["total_chars"],
        started_at=row["started_at"],
        settled_at=row["settled_at"],
        receipt=row["outcome"] or intended,
        is_late=bool(row["is_late"]),
    )
