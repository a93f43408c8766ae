"""Tells a run's events: who did what and what came of it, one line for each, in order."""

from collections.abc import Callable
from datetime import UTC
from typing import Final

from models.happenings import Happening
from models.runs import RunRow
from models.showing import ShownCall
from umbel.agent_settings import ModelSettings
from umbel.cli.moments import Happened, Moment
from umbel.cli.spending import spending_of
from umbel.cli.story_words import Told, words_of

OUTCOMES: Final = ("returned", "refused", "errored", "skipped", "unknown")


def telling(prices: ModelSettings) -> Callable[[RunRow, Happening], list[Moment]]:
    """How a run whose model has these prices is told, an event a moment."""
    return lambda run, happening: [tell(run, happening, prices)]


def tell(run: RunRow, happening: Happening, prices: ModelSettings) -> Happened:
    """One event of `run` as people and programs are told of it.

    Args:
        run: whose event it is.
        happening: the event and the rows it is about.
        prices: of the run's model.
    """
    event = happening.event
    facts = _facts(happening, prices)
    return Happened(
        run_id=run.run_id,
        seq=event.seq,
        kind=event.kind,
        ref=event.ref,
        at=event.at.astimezone(UTC),
        seconds=max(0.0, (event.at - run.accepted_at).total_seconds()),
        text=words_of(Told(run, event, happening.call, happening.attempt, facts)),
        facts=facts,
    )


def _facts(happening: Happening, prices: ModelSettings) -> dict[str, object]:
    facts: dict[str, object] = dict(happening.event.data)
    if happening.worker is not None:
        facts["worker"] = happening.worker
    attempt = happening.attempt
    if attempt is not None:
        facts |= {
            "attempt": attempt.attempt,
            "decision": attempt.decision,
            "model": attempt.model,
            "endpoint": attempt.endpoint,
            "error_class": attempt.error_class,
            "input_tokens": attempt.input_tokens,
            "output_tokens": attempt.output_tokens,
            "is_estimated": attempt.is_estimated,
            "cost_usd": spending_of([attempt], prices).cost_usd,
            "seconds": attempt.seconds,
        }
    return facts | (_call_facts(happening.call, happening.event.kind) if happening.call else {})


def _call_facts(call: ShownCall, kind: str) -> dict[str, object]:
    """What is known of a call by then: its row may be ahead of the event."""
    facts: dict[str, object] = {
        "step": call.step,
        "position": call.position,
        "tool": call.tool,
        "effect": call.effect,
        "arguments": call.args_text,
    }
    state = kind.removeprefix("call.")
    if state in OUTCOMES and state == call.state:
        facts |= {
            "attempt": call.attempt,
            "receipt": call.receipt,
            "result": call.view,
            "result_chars": call.result_chars,
            "seconds": call.seconds,
        }
    return facts
