"""From a request to a run that a worker can claim: what is frozen, and where it comes from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from loop.policy import Policy
from loop.profiles import DEFAULT_PROFILE, expand_policy
from models.database import Database
from models.follow_ups import FollowedUp, HandedOver, follow_up
from models.runs import Accepted, RunRequest, accept_run
from providers.profiles import DEFAULT_BASE_URL, default_wire
from tasks.authority import admit
from tasks.traceparent import storable_traceparent
from tools.registry import ToolRegistry
from umbel.agent_settings import ModelSettings, unknown_model
from umbel.contracts import Principal, RunId, ThreadId, new_id
from umbel.errors import Misconfigured
from umbel.faults import fault
from umbel.names import OnBusy, WireName
from umbel.settings import Settings
from umbel.settings_faults import compact
from umbel.source_name import GivenSource
from umbel.strict_json import canonical


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """An agent as configuration names it: what a run of it starts with."""

    name: str = "default"
    profile: str = DEFAULT_PROFILE
    model: str | None = None
    wire: WireName = "chat"
    instructions: str = ""
    tools: Sequence[str] | None = None
    """Names the model may call; None: every registered tool."""
    policy: Mapping[str, Any] = field(default_factory=dict)
    """Values that differ from the profile's, `permission_mode` among them."""
    model_settings: Callable[[str], ModelSettings] = unknown_model
    """What is known about the model that a run gets."""


def configured_agent(settings: Settings, name: str, **policy: Any) -> AgentSpec:
    """The agent of that name; `policy` holds values that win over its own.

    Raises:
        Misconfigured: there is no such agent.
    """
    agent = settings.agent(name)
    return AgentSpec(
        name=name,
        profile=agent.profile,
        model=agent.model,
        wire=agent.wire or default_wire(settings.model_base_url or DEFAULT_BASE_URL),
        instructions=agent.instructions,
        tools=agent.tools,
        policy={**agent.policy, "permission_mode": agent.permission, **policy},
        model_settings=settings.model_settings,
    )


@dataclass(frozen=True, slots=True)
class NewRequest:
    """What a caller asks for."""

    principal: Principal
    input: str
    model: str
    """The model to use when the agent names none."""
    workspace: str | None = None
    run_id: RunId | None = None
    """Chosen by the caller, it makes the request safe to repeat."""
    thread_id: ThreadId | None = None
    names_model: bool = False
    """The caller chose the model, whatever the agent names."""
    own_policy: Sequence[str] = ()
    """Names of the agent's policy values that the caller gave."""
    sources: Sequence[GivenSource] = ()
    """Texts that are given beside the request, and that may be edited or deleted later."""
    makes_thread: bool = True
    """A `thread_id` that stands for no thread yet makes one."""
    traceparent: str | None = None
    """The caller's place in a trace; one that is not well-formed is left out."""


def accept(
    database: Database, registry: ToolRegistry, agent: AgentSpec, request: NewRequest
) -> Accepted:
    """Write the request down as a run; the caller rings for it afterwards.

    Raises:
        InvalidInput: the request cannot be stored as it is.
        IdReused: its run id stands for another request.
        NotFound: there is no such thread of the caller's, and the request makes none.
        Misconfigured: the agent's profile, policy or tools do not exist.
        NotPermitted: the principal's access was withdrawn.
        Unavailable: PostgreSQL does not answer.
    """
    admit(database, request.principal)
    wanted = _frozen(registry, agent, request)
    run_id = request.run_id or RunId(new_id("run"))
    with database.begin() as connection:
        accepted = accept_run(connection, wanted, run_id=run_id, thread_id=request.thread_id)
        fault("accept.pre_commit", run_id=run_id)
    fault("accept.post_commit", run_id=run_id)
    return accepted


def accept_follow_up(
    database: Database,
    registry: ToolRegistry,
    agent: AgentSpec,
    request: NewRequest,
    *,
    thread_id: ThreadId,
    on_busy: OnBusy,
) -> FollowedUp | HandedOver:
    """Write a further request of a thread down; the caller rings for it afterwards.

    Raises:
        Conflict: the thread is busy and `on_busy` is `reject`.
        InvalidInput, IdReused, NotFound, NotPermitted, Misconfigured, Unavailable: as `accept`.
    """
    admit(database, request.principal)
    wanted = _frozen(registry, agent, request)
    run_id = request.run_id or RunId(new_id("run"))
    with database.begin() as connection:
        found = follow_up(connection, wanted, run_id=run_id, thread_id=thread_id, on_busy=on_busy)
        fault("accept.pre_commit", run_id=run_id)
    fault("accept.post_commit", run_id=run_id)
    return found


def _frozen(registry: ToolRegistry, agent: AgentSpec, request: NewRequest) -> RunRequest:
    """The request with everything that its run keeps of the configuration."""
    policy = _expanded(agent)
    tools = registry.select(agent.tools)
    model = agent.model or request.model
    known = agent.model_settings(model)
    return RunRequest(
        principal=request.principal,
        input=request.input,
        agent=agent.name,
        profile=agent.profile,
        model=model,
        wire=agent.wire,
        instructions=agent.instructions,
        policy=canonical(policy.model_dump(mode="json")),
        tools=canonical([tool.frozen() for tool in tools]),
        window_tokens=known.window,
        reserve_tokens=known.output_reserve,
        takes_pictures=known.images,
        workspace=request.workspace,
        traceparent=storable_traceparent(request.traceparent),
        names_model=request.names_model,
        own_policy=tuple(request.own_policy),
        sources=tuple(request.sources),
        makes_thread=request.makes_thread,
    )


def _expanded(agent: AgentSpec) -> Policy:
    try:
        return expand_policy(agent.profile, agent.policy)
    except ValidationError as error:
        raise Misconfigured(f"Agent {agent.name!r}: {compact(error)}") from error
