"""Records of any length for tests of what is left out of requests."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from loop.request import (
    AssistantMessage,
    Message,
    ModelRequest,
    OfferedTool,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from loop.response import ModelTurn, ProposedCall
from loop.shape import Place
from loop.transcript import RecordedCall, RecordedRun, RecordedStep, RunRecord

REQUEST = "Summarise {all} pages. Never use the word urgent."


@dataclass(frozen=True, slots=True)
class StepWish:
    """A step of so many calls whose results have so many characters."""

    calls: int = 1
    chars: int = 100
    corrections: int = 0


def a_step(
    number: int, wish: StepWish, *, run_id: str = "run_own", steers: int = 0
) -> RecordedStep:
    """Every text of it names its place, so that a request can be searched for it."""
    names = [f"{run_id}.{number}.{at}" for at in range(wish.calls)]
    proposed = tuple(
        ProposedCall(model_id=name, name="look", status="ok", arguments_text="{}") for name in names
    )
    calls = tuple(
        RecordedCall(
            f"call_{name}", "look", f'{{"at":"{name}"}}', f"result {name} " + "r" * wish.chars
        )
        for name in names
    )
    corrections = tuple(f"correct {run_id}.{number}.{n}!" for n in range(wish.corrections))
    return RecordedStep(
        number, "local", ModelTurn(text=f"said {run_id}.{number}.", calls=proposed), calls,
        corrections, steers,
    )  # fmt: skip


def steps_of(run_id: str, wishes: list[StepWish]) -> tuple[RecordedStep, ...]:
    """Steps from 1 on."""
    heard, steps = 0, []
    for number, wish in enumerate(wishes, 1):
        heard += wish.corrections
        steps.append(a_step(number, wish, run_id=run_id, steers=heard))
    return tuple(steps)


def a_record(
    own: list[StepWish], *earlier: list[StepWish], tools: tuple[OfferedTool, ...] = ()
) -> RunRecord:
    """A run with these steps, after such runs of its thread."""
    return RunRecord(
        model="m",
        instructions="Be brief.",
        requests=(REQUEST,),
        steps=steps_of("run_own", own),
        tools=tools,
        max_output_tokens=None,
        run_id="run_own",
        earlier=tuple(
            RecordedRun((f"request of run_{n}",), steps_of(f"run_{n}", wishes), f"run_{n}")
            for n, wishes in enumerate(earlier)
        ),
    )


def wishes(most: int = 12) -> st.SearchStrategy[list[StepWish]]:
    """Steps of all sizes."""
    one = st.builds(
        StepWish,
        calls=st.integers(0, 3),
        chars=st.sampled_from((0, 50, 300, 2_000, 9_000)),
        corrections=st.integers(0, 2),
    )
    return st.lists(one, max_size=most)


def records() -> st.SearchStrategy[RunRecord]:
    """Threads of up to three runs."""
    return st.builds(
        lambda own, earlier: a_record(own, *earlier),
        wishes(),
        st.lists(wishes(4), max_size=2),
    )


def texts_of(request: ModelRequest) -> list[str]:
    """Every text of a request."""
    return [str(getattr(message, "text", "")) for message in request.messages]


def broken_rules(request: ModelRequest) -> list[str]:
    """What a strict endpoint would refuse, or what must never be missing."""
    messages = [m for m in request.messages if not isinstance(m, SystemMessage)]
    broken = [] if isinstance(messages[0], UserMessage) else ["it does not begin with a person"]
    broken += unpaired(messages)
    if not any(isinstance(m, UserMessage) and m.text == REQUEST for m in messages):
        broken.append("the request is missing")
    system = [m.text for m in request.messages if isinstance(m, SystemMessage)]
    return broken + ([f"instructions are {system}"] if system != ["Be brief."] else [])


def unpaired(messages: Sequence[Message]) -> list[str]:
    broken, waiting = [], list[str]()
    for message in messages:
        if isinstance(message, ToolMessage):
            if not waiting or waiting.pop(0) != message.call_id:
                broken.append(f"a result without its call: {message.call_id}")
            continue
        broken += [f"a call without a result: {call_id}" for call_id in waiting]
        waiting = []
        if isinstance(message, AssistantMessage):
            waiting = [call.call_id for call in message.calls]
    return broken + [f"a call without a result: {call_id}" for call_id in waiting]


def place(step: int, run_id: str = "run_own") -> Place:
    """A place of a record."""
    return Place(run_id=run_id, step=step)
