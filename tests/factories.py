"""Valid rows for tests, made by the product itself: nothing impossible can be built."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loop.profiles import DEFAULT_PROFILE
from models.database import Database
from models.runs import Accepted
from tasks.acceptance import AgentSpec, NewRequest, accept
from tools.definition import Tool
from tools.registry import ToolRegistry
from umbel.agent_settings import ModelSettings
from umbel.contracts import Principal, RunId, ThreadId
from umbel.names import Effect, Placement
from umbel.source_name import GivenSource

OWNER = Principal(tenant="acme", user="ann")
MAY_REPEAT = {"repeat_unchanged": 0, "repeat_failures": 0}
"""For models that ask for the same again and again, where that is not the subject."""


def a_tool(
    name: str = "look",
    function: Callable[..., object] | None = None,
    *,
    effect: Effect = "read",
    placement: Placement = "task",
    schema: Mapping[str, Any] | None = None,
    stall_seconds: float = 30.0,
) -> Tool:
    """A tool that takes anything and returns its arguments, unless told otherwise."""
    return Tool(
        name=name,
        description=f"The tool {name}.",
        input_schema=schema or {"type": "object"},
        function=function or _echo,
        effect=effect,
        placement=placement,
        stall_seconds=stall_seconds,
    )


@dataclass(frozen=True, slots=True)
class RunWish:
    """What a test wants of a run; every value has a sensible default.

    Its model may repeat itself, unless the policy says otherwise.
    """

    input: str = "What is in the folder?"
    model: str = "scripted"
    principal: Principal = OWNER
    policy: Mapping[str, Any] = field(default_factory=dict)
    profile: str = DEFAULT_PROFILE
    tools: tuple[Tool, ...] = ()
    workspace: str | None = None
    run_id: RunId | None = None
    thread_id: ThreadId | None = None
    makes_thread: bool = True
    sources: tuple[GivenSource, ...] = ()
    window: int = 1_000_000
    """Tokens of the model's window: far away where it is not the subject."""
    output_reserve: int = 100
    images: bool = False
    """Whether the model takes pictures."""


def a_run(database: Database, wish: RunWish | None = None) -> Accepted:
    """A run that is ready for its first step, or queued behind another of its thread."""
    wish = wish or RunWish()
    policy = {**MAY_REPEAT, **wish.policy}
    known = ModelSettings(
        window=wish.window, output_reserve=wish.output_reserve, images=wish.images
    )
    agent = AgentSpec(
        profile=wish.profile,
        tools=[tool.name for tool in wish.tools],
        policy=policy,
        model_settings=lambda _model: known,
    )
    request = NewRequest(
        principal=wish.principal,
        input=wish.input,
        model=wish.model,
        workspace=wish.workspace,
        run_id=wish.run_id,
        thread_id=wish.thread_id,
        makes_thread=wish.makes_thread,
        sources=wish.sources,
    )
    return accept(database, ToolRegistry(wish.tools), agent, request)


def _echo(**arguments: object) -> dict[str, object]:
    return arguments
