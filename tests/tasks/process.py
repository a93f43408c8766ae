"""One worker process without its pool: the runtime that task bodies are given.

Everything is the product's own but the two edges: the model is scripted, the bell writes down.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

import fakeredis
from celery import Celery

from locks.ownership import OwnershipLocks
from loop.request import ModelRequest
from loop.response import ModelTurn, ProposedCall, Usage
from models.database import Database
from models.records import SpecCache
from providers.contract import RequestForm, StreamControl, StreamLimits
from tasks.claims_watch import ClaimsWatch
from tasks.ringing import Ringer
from tasks.runtime import Runtime
from tasks.step import run_step
from tasks.tool_call import run_call
from tools.definition import Tool
from tools.registry import ToolRegistry
from umbel.contracts import CallId, RunId, WorkerId

Said = ModelTurn | BaseException | Callable[[StreamControl], ModelTurn]

Message = TypeVar("Message")

_numbers = count(1)


def said(text: str = "Hello.") -> ModelTurn:
    """The model answers."""
    return ModelTurn(text=text, usage=Usage(total_tokens=7), finish="stop")


def asked(*calls: tuple[str, str]) -> ModelTurn:
    """The model asks for tools: (name, arguments as JSON text)."""
    proposed = (
        ProposedCall(model_id=f"c{n}", name=name, status="ok", arguments_text=arguments)
        for n, (name, arguments) in enumerate(calls)
    )
    return ModelTurn(calls=tuple(proposed), usage=Usage(total_tokens=9), finish="tool_calls")


class ScriptedModel:
    """Says what it was told to say, in order; running out of words is a fault of the test."""

    endpoint_name = "scripted"

    def __init__(self) -> None:
        self.script: deque[Said] = deque()
        self.requests: list[ModelRequest] = []

    def prepare(self) -> None:
        """Nothing to load."""

    def form(self) -> RequestForm:
        return {}

    def render(self, request: ModelRequest, form: RequestForm) -> bytes:
        return repr((request, form)).encode()

    def stream(self, request: ModelRequest, body: bytes, control: StreamControl) -> ModelTurn:
        self.requests.append(request)
        line = self.script.popleft()
        if isinstance(line, BaseException):
            raise line
        if isinstance(line, ModelTurn):
            control.on_delta("text", line.text)
            return line
        return line(control)


class RecordingRinger(Ringer):
    """A ringer that keeps its messages; `on_step` is called with each step as it is rung."""

    def __init__(self) -> None:
        super().__init__(Celery("unused", set_as_current=False))
        self.steps: list[tuple[RunId, int]] = []
        self.calls: list[CallId] = []
        self.tools: dict[CallId, str] = {}
        self.on_step: Callable[[RunId, int], object] = lambda _run, _step: None

    def ring_step(self, run_id: RunId, step: int, rings: int = 0) -> bool:
        self.steps.append((run_id, step))
        self.on_step(run_id, step)
        return True

    def ring_call(self, call_id: CallId, tool: str, rings: int = 0) -> bool:
        self.calls.append(call_id)
        self.tools[call_id] = tool
        return True


@dataclass
class Process:
    """A worker process and the hand that feeds it messages."""

    runtime: Runtime
    model: ScriptedModel
    bell: RecordingRinger
    lost: list[bool] = field(default_factory=lambda: [False])

    @property
    def worker(self) -> WorkerId:
        return self.runtime.worker

    def step(self, run_id: RunId, step: int = 1) -> str:
        """Deliver a step message."""
        return run_step(self.runtime, run_id, step)

    def call(self, call_id: CallId) -> str:
        """Deliver a call message."""
        return run_call(self.runtime, call_id)

    def carry_all(self) -> None:
        """Deliver everything that was rung, until nothing more is."""
        while self.bell.steps or self.bell.calls:
            for run_id, step in _taken(self.bell.steps):
                self.step(run_id, step)
            for call_id in _taken(self.bell.calls):
                self.call(call_id)


def a_process(database: Database, *tools: Tool) -> Process:
    """A process that knows these tools."""
    model, bell, lost = ScriptedModel(), RecordingRinger(), [False]
    client = fakeredis.FakeRedis(decode_responses=True, encoding_errors="replace")
    runtime = Runtime(
        worker=WorkerId(f"wrk_{next(_numbers)}"),
        database=database,
        specs=SpecCache(database),
        locks=OwnershipLocks(client, prefix="u", ttl_seconds=30),
        redis=client,
        redis_prefix="u",
        registry=ToolRegistry(tools),
        providers={"chat": model},
        limits=StreamLimits(),
        ringer=bell,
        claims=ClaimsWatch(database, look_seconds=0.0),
        is_presence_lost=lambda: lost[0],
        jitter=lambda: 0.0,
    )
    return Process(runtime, model, bell, lost)


def _taken(waiting: list[Message]) -> list[Message]:
    taken, waiting[:] = list(waiting), []
    return taken
