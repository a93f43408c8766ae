"""The words of a run's story: what each kind of event says, on one line."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from models.events import Event
from models.runs import RunRow
from models.showing import ShownAttempt, ShownCall
from umbel.cli.safe_text import one_line, safe
from umbel.cli.wording import span, what_to_do

_REQUEST_CHARS: Final = 160
_RESULT_CHARS: Final = 160
_ARGUMENT_CHARS: Final = 2_000
_SENT: Final = {"returned": "→", "errored": "failed"}
_VERIFIED: Final = {
    "happened": "it happened",
    "not_happened": "it did not happen",
    "partial": "it happened in part",
}


@dataclass(frozen=True, slots=True)
class Told:
    """An event with everything its words need."""

    run: RunRow
    event: Event
    call: ShownCall | None
    attempt: ShownAttempt | None
    facts: Mapping[str, object]

    @property
    def who(self) -> str:
        """The person who did it; without a word about it, only the owner may have."""
        return str(self.event.data.get("by") or self.run.owner)

    @property
    def worker(self) -> str:
        """The worker that did it."""
        return str(self.facts.get("worker") or "a worker")


def words_of(told: Told) -> str:
    """What happened, harmless for a terminal; an event nobody knows is told by its own data."""
    kind = told.event.kind
    if told.call is not None and kind in _CALL_WORDS:
        words = _CALL_WORDS[kind](told, told.call)
    elif kind in _WORDS:
        words = _WORDS[kind](told)
    else:
        words = " ".join(f"{name}={value}" for name, value in told.event.data.items())
    return safe(words).replace("\n", "\\n").rstrip()


def _accepted(told: Told) -> str:
    run = told.run
    request = one_line(run.input, _REQUEST_CHARS)
    return f"{run.owner} asks agent {run.agent!r} (model {run.model}): {request}"


def _claimed(told: Told) -> str:
    return f"{told.worker} claims it (claim {told.event.data['claim']}) and asks the model"


def _decided(told: Told) -> str:
    words = one_line(told.attempt.text or "", _REQUEST_CHARS) if told.attempt else ""
    is_answer = told.event.data.get("decision") == "answer"
    return _model_call(told) + (f": {words}" if words and not is_answer else "")


def _retried(told: Told) -> str:
    data = told.event.data
    again = f"asks again in {span(data['wait_seconds'])}"
    return f"{_model_call(told)}: {one_line(data['detail'])}; {again}"


def _discarded(told: Told) -> str:
    return f"{_model_call(told)}: overtaken meanwhile, so that it is only spend"


def _fenced_out(told: Told) -> str:
    return f"{_model_call(told)}: its worker had lost the run, so that it is only spend"


def _handed_back(told: Told) -> str:
    return f"is given back: {one_line(told.event.data.get('detail') or '')}"


def _taken_over(told: Told) -> str:
    losses = told.event.data.get("losses")
    return (
        f"{told.worker} is gone in step {told.event.data.get('step')} (loss {losses}); the tokens "
        "of a model call it had open are unknown; another worker may take over"
    )


def _stands_still(told: Told) -> str:
    data = told.event.data
    reason, detail = data.get("reason"), data.get("detail")
    endpoint = (told.attempt.endpoint or "") if told.attempt else ""
    words = str(reason) + (f": {one_line(detail)}" if detail else "")
    if told.attempt is not None:
        words += f" ({_model_call(told)})"
    action = what_to_do(reason, detail, endpoint.rpartition("@")[2] or None)
    return words + (f" To do: {action}" if action else "")


def _resumed(told: Told) -> str:
    return f"{told.who} lets it go on at step {told.event.data.get('step')}"


def _left_out(told: Told) -> str:
    """What gave way, and to what."""
    data = told.event.data
    kept = f"steps before {data.get('first_kept_step')}"
    if data.get("first_kept_run") != told.run.run_id:
        kept += f" of {data.get('first_kept_run')}"
    if told.event.kind == "context.summarised":
        return f"{kept} give way to a summary (model call {data.get('attempt')})"
    return f"{kept} are left out without a summary: {one_line(data.get('cause') or '')}"


def _stopping(told: Told) -> str:
    return f"{told.who} stops it; what has been started may still end"


def _steered(told: Told) -> str:
    return f"{told.who} corrects it (mode {told.event.data.get('mode')})"


def _delivered(told: Told) -> str:
    return f"the answer is in the {told.event.data.get('destination')} of {told.run.owner}"


def _model_call(told: Told) -> str:
    return ", ".join(_model_call_parts(told))


def _model_call_parts(told: Told) -> Iterator[str]:
    facts = told.facts
    yield f"model call {facts.get('attempt')} {facts.get('decision') or ''}".rstrip()
    if told.attempt is None:
        return
    if facts["error_class"]:
        yield str(facts["error_class"])
    tokens_in, tokens_out = told.attempt.input_tokens, told.attempt.output_tokens
    if tokens_in is None and tokens_out is None:
        yield "tokens unknown"
    else:
        about = "about " if told.attempt.is_estimated else ""
        yield f"{about}{_number(tokens_in)} in, {_number(tokens_out)} out"
    cost = facts["cost_usd"]
    yield "cost unknown" if cost is None else f"${cost:.4f}"
    if told.attempt.seconds is not None:
        yield span(told.attempt.seconds)


def _asked(told: Told, call: ShownCall) -> str:
    words = f"{call.tool} {_arguments(call)}"
    if call.effect == "mutation":
        # What changes something is shown whole: its arguments are what is sent.
        words += f" (a change, {call.call_id})"
    return words + _NOT_YET.get(told.event.kind, "")


def _intent(told: Told, call: ShownCall) -> str:
    return f"{call.tool}: {told.worker} writes down that it sends this change now"


def _settled(told: Told, call: ShownCall) -> str:
    state = told.event.kind.removeprefix("call.")
    subject = call.tool
    if call.attempt == 0 and state in ("refused", "errored"):
        subject += f" {_arguments(call)}"  # it was never ready, so nothing has told of them
    late = ", late" if told.event.data.get("is_late") else ""
    known = ", ".join(_outcome_facts(told, call))
    words = f"{subject} {_SENT.get(state, state)}{late}" + (f" ({known})" if known else "")
    return f"{words} {one_line(str(told.facts.get('result') or ''), _RESULT_CHARS)}"


def _outcome_facts(told: Told, call: ShownCall) -> Iterator[str]:
    if told.facts.get("result_chars") is not None:
        yield f"{call.result_chars:,} characters"
    if told.facts.get("seconds") is not None and call.seconds is not None:
        yield span(call.seconds)
    if call.attempt > 0:
        yield told.worker
    if call.attempt > 1:
        yield f"attempt {call.attempt}"


def _unknown(_: Told, call: ShownCall) -> str:
    return f"{call.tool}: nobody knows whether this change happened ({call.call_id})"


def _verified(told: Told, call: ShownCall) -> str:
    outcome = str(told.event.data.get("outcome"))
    return f"{call.tool}: {told.who} says that {_VERIFIED.get(outcome, outcome)}"


def _approval(told: Told, call: ShownCall) -> str:
    word = told.event.kind.removeprefix("approval.")
    if word == "expired":
        return f"{call.tool}: time to approve it, or to start it, ran out ({call.call_id})"
    return f"{call.tool}: {told.who} has {word} it ({call.call_id})"


def _reported_late(told: Told, call: ShownCall) -> str:
    agrees = "agrees with" if told.event.kind == "call.confirmed" else "CONTRADICTS"
    outcome = told.event.data.get("outcome")
    return f"{call.tool}: the tool's own late report ({outcome}) {agrees} the owner's word"


def _source_changed(told: Told) -> str:
    source = one_line(str(told.event.data.get("source")), _ARGUMENT_CHARS)
    later = " again; the next step looks at it" if told.event.data.get("waits") else ""
    return f"{source} has changed since it was read{later}"


def _refreshing(told: Told) -> str:
    again, gone = told.event.data.get("again", 0), told.event.data.get("gone", 0)
    parts = [f"{again} results are read again" if again else "", f"{gone} noted" if gone else ""]
    return f"before it is asked: {', '.join(part for part in parts if part)}"


def _arguments(call: ShownCall) -> str:
    if call.args_text is None:
        return "(arguments unusable)"
    if call.effect == "mutation":
        return call.args_text
    return one_line(call.args_text, _ARGUMENT_CHARS)


def _number(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"


_NOT_YET: Final = {
    "call.planned": "; waits for a free place",
    "call.awaiting_approval": "; waits for its owner's approval: `umbel approvals list`",
}
_WORDS: Final[Mapping[str, Callable[[Told], str]]] = {
    "run.accepted": _accepted,
    "run.promoted": lambda _: "its thread is free: any worker may take it",
    "step.claimed": _claimed,
    "step.decided": _decided,
    "step.retry": _retried,
    "doom_loop": lambda _: "the model was told that it goes round in a circle",
    "context.summarised": _left_out,
    "context.trimmed": _left_out,
    "source.changed": _source_changed,
    "evidence.refreshing": _refreshing,
    "step.discarded": _discarded,
    "step.fenced_out": _fenced_out,
    "step.handed_back": _handed_back,
    "run.taken_over": _taken_over,
    "run.paused": _stands_still,
    "run.failed": _stands_still,
    "run.cancelled": _stands_still,
    "run.completed": lambda _: "the answer is recorded",
    "run.resumed": _resumed,
    "run.stopping": _stopping,
    "run.steered": _steered,
    "delivery.delivered": _delivered,
}
_CALL_WORDS: Final[Mapping[str, Callable[[Told, ShownCall], str]]] = {
    "call.planned": _asked,
    "call.ready": _asked,
    "call.awaiting_approval": _asked,
    "call.intent": _intent,
    "approval.granted": _approval,
    "approval.denied": _approval,
    "approval.expired": _approval,
    "call.returned": _settled,
    "call.refused": _settled,
    "call.errored": _settled,
    "call.skipped": _settled,
    "call.unknown": _unknown,
    "call.verified": _verified,
    "call.conflict": _reported_late,
    "call.confirmed": _reported_late,
}
