"""How each moment reads: lines of a label and a text, the same on a terminal and in a pipe."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from umbel.cli.moments import (
    CallAsked,
    CallSettled,
    Happened,
    ModelText,
    Moment,
    Progress,
    RunAccepted,
    RunNoted,
    RunSettled,
    StepDecided,
    StepRetried,
    StepStarted,
    Stopped,
)
from umbel.cli.safe_text import one_line, safe
from umbel.cli.spending import cost_in_words, tokens_in_words

_ARGUMENT_CHARS: Final = 2_000
_RESULT_CHARS: Final = 160
_MARKS: Final = {"returned": "→", "refused": "refused", "errored": "failed", "skipped": "skipped"}
_STYLES: Final = {"completed": "bold green", "paused": "bold yellow"}
_EVENT_STYLES: Final = {
    "step.claimed": "dim",
    "step.retry": "yellow",
    "step.handed_back": "yellow",
    "run.taken_over": "yellow",
    "call.unknown": "bold yellow",
    "call.conflict": "bold red",
    "run.paused": "bold yellow",
    "run.failed": "bold red",
    "run.cancelled": "bold red",
    "run.completed": "bold green",
}
EVENT_TIME_WIDTH: Final = 34
_NEVER_CUT: Final = ("call.ready", "call.unknown", "run.paused", "run.failed")
"""Events that a person acts on, or that show what is sent."""
_RAISE: Final = "`umbel runs resume RUN --limit {}=N` lets it go on, with a higher number N."
_TO_DO: Final = {
    "approval_required": "`umbel approvals list` shows it; its owner approves or denies it.",
    "unknown_outcome": (
        "Look at the outside system: nobody knows whether the change happened. Umbel does not "
        "send it again. Say what you found: `umbel receipts verify`; then `umbel runs resume`."
    ),
    "credentials": "Set OPENAI_API_KEY or UMBEL_API_KEY to a key that the endpoint accepts.",
    "access_withdrawn": (
        "`umbel authority list` says who withdrew it, and why. Once `umbel authority allow` has "
        "given it back: `umbel runs resume RUN`."
    ),
    "contract_mismatch": (
        "Install what is missing on the tool workers, or restore what was changed; then "
        "`umbel runs resume RUN`."
    ),
    "provider_error": "Correct what the endpoint complains about, or try again later.",
    "context_capacity": "Give a model with a larger window, or a smaller request.",
    "tool_call_limit": _RAISE.format("tool_call_limit"),
    "iteration_limit": _RAISE.format("iteration_cap"),
    "empty_response": "Try another model: this one gave nothing that could be used.",
    "lost_worker": "Look at the workers' log: several died in the same step.",
}
"""The next action for the reasons a person can do something about."""


def what_to_do(reason: str | None, detail: str | None, endpoint: str | None) -> str | None:
    """The next action for a run that stands still, or None where nobody can do anything.

    Args:
        reason: of the run.
        detail: of the run; begins with the class of the failure.
        endpoint: the address that the model was asked at, if it is known.
    """
    if reason == "provider_error" and (detail or "").startswith("unreachable"):
        address = safe(endpoint) if endpoint else "the model's address"
        return (
            f"No model server could be reached at {address}. Start it, or correct "
            "UMBEL_MODEL_BASE_URL, which names the address."
        )
    return _TO_DO.get(reason or "")


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a label in its own column, then text; no label continues the line above."""

    label: str
    text: str
    style: str = ""
    is_cut: bool = True
    """On a terminal, cut to one row instead of wrapped."""
    time: str | None = None
    """When it was, where the screen's own clock does not say it."""


def lines_of(moment: Moment) -> Iterator[Line]:
    """What is printed for good; pieces of text and answers are the screen's own business."""
    match moment:
        case Progress(topic=topic, text=text):
            yield Line(topic, safe(text), is_cut=False)
        case RunAccepted():
            yield Line("run", f"{moment.run_id} accepted for agent {moment.agent!r}")
        case StepStarted() | StepDecided() | StepRetried():
            yield from _step_lines(moment)
        case CallAsked() | CallSettled():
            yield _call_line(moment)
        case RunNoted() | Happened():
            yield from _noted(moment)
        case RunSettled():
            yield from _settled(moment)
        case ModelText() | Stopped():
            return
        case _:
            assert_never(moment)


def _step_lines(moment: StepStarted | StepDecided | StepRetried) -> Iterator[Line]:
    """Words that come with calls are printed; an answer is, in full, at the end."""
    match moment:
        case StepStarted(claim=claim):
            again = f" again (claim {claim})" if claim > 1 else ""
            yield Line(_step(moment), f"asks the model{again}", "dim")
        case StepDecided(decision=decision, text=text):
            if decision != "answer" and text and text.strip():
                yield from _block(_step(moment), text)
        case StepRetried():
            words = f"{moment.detail}; asks again in {moment.wait_seconds:.1f} s"
            yield Line(_step(moment), one_line(words), "yellow", is_cut=False)


def _call_line(moment: CallAsked | CallSettled) -> Line:
    return _asked(moment) if isinstance(moment, CallAsked) else _settled_call(moment)


def _asked(moment: CallAsked) -> Line:
    arguments = moment.arguments if moment.arguments is not None else "arguments unusable"
    shown = one_line(f"{moment.tool} {arguments}", _ARGUMENT_CHARS)
    # What changes something is shown whole: its arguments are what is sent.
    return Line(_step(moment), shown, "cyan", is_cut=moment.effect != "mutation")


def _settled_call(moment: CallSettled) -> Line:
    style = {"returned": "", "unknown": "bold yellow"}.get(moment.state, "red")
    if moment.state == "unknown":
        text = f"{moment.tool}: nobody knows whether this change happened"
        return Line(_step(moment), text, style, is_cut=False)
    mark = _MARKS.get(moment.state, moment.state)
    facts = [f"{moment.result_chars:,} characters"] if moment.result_chars is not None else []
    if moment.seconds is not None:
        facts.append(span(moment.seconds))
    known = f" ({', '.join(facts)})" if facts else ""
    result = one_line(moment.result or "", _RESULT_CHARS)
    return Line(_step(moment), f"{moment.tool} {mark}{known} {result}".rstrip(), style)


def _noted(moment: RunNoted | Happened) -> Iterator[Line]:
    if isinstance(moment, Happened):
        yield line_of(moment)
    elif moment.event == "run.taken_over":
        yield Line("note", "its worker is gone; another one takes the run over", "yellow")
    elif moment.event == "step.handed_back":
        yield Line("note", one_line(f"handed back: {moment.detail or ''}"), "yellow")


def line_of(moment: Happened) -> Line:
    """One durable event, with the moment in UTC and since the run was accepted."""
    since = "+" + span(moment.seconds)
    return Line(
        label_of(moment),
        moment.text,
        _EVENT_STYLES.get(moment.kind, ""),
        is_cut=moment.kind not in _NEVER_CUT,
        time=f"{moment.at:%Y-%m-%d %H:%M:%S} {since:>12}  ",
    )


def label_of(moment: Happened) -> str:
    """Such as `step 2`, `call 2.1` and `paused`."""
    family, _, rest = moment.kind.partition(".")
    step, position = moment.facts.get("step"), moment.facts.get("position")
    if family == "call" and position is not None:
        return f"call {step}.{position}"
    return f"step {step}" if family == "step" else rest.replace("_", " ")


def _settled(moment: RunSettled) -> Iterator[Line]:
    style = _STYLES.get(moment.status, "bold red")
    counts = (
        f"{count(moment.steps, 'step')}, {count(moment.calls, 'tool call')}, "
        f"{count(moment.spending.model_calls, 'model call')} in {span(moment.seconds)}"
    )
    if moment.reason is None:
        yield Line(moment.status, counts, style)
    else:
        yield Line(moment.status, moment.reason, style)
        if moment.detail:
            yield from _block("because", moment.detail)
        if action := what_to_do(moment.reason, moment.detail, moment.endpoint):
            yield Line("to do", action, is_cut=False)
        yield Line("used", counts)
    yield Line("tokens", tokens_in_words(moment.spending))
    yield Line("cost", cost_in_words(moment.spending, moment.model), is_cut=False)
    yield Line("look", moment.look, is_cut=False)


def _block(label: str, text: str) -> Iterator[Line]:
    for number, line in enumerate(safe(text).strip("\n").split("\n")):
        yield Line(label if number == 0 else "", line, is_cut=False)


def _step(moment: StepStarted | StepDecided | CallAsked | CallSettled | StepRetried) -> str:
    return f"step {moment.step}"


def span(seconds: float) -> str:
    """A length of time with a sensible unit."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def count(number: int, noun: str) -> str:
    """Such as `1 step` and `2 steps`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
