"""What a caller of Umbel wants: a request, and how it is to be carried out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from umbel.contracts import Principal, RunId, ThreadId
from umbel.errors import Misconfigured
from umbel.settings import Settings
from umbel.source_name import GivenSource

if TYPE_CHECKING:
    from tasks.acceptance import AgentSpec, NewRequest


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request and how it is to be carried out; the fields are those of `Service.enqueue`."""

    request: str
    agent: str = "default"
    model: str | None = None
    """The model to ask, instead of the agent's."""
    workspace: str | None = None
    run_id: str | None = None
    thread_id: str | None = None
    makes_thread: bool = True
    """A `thread_id` that stands for no thread yet makes one; False: it is refused."""
    policy: Mapping[str, object] = field(default_factory=dict[str, object])
    traceparent: str | None = None
    sources: Sequence[GivenSource] = ()

    def against(self, settings: Settings, principal: Principal) -> "tuple[AgentSpec, NewRequest]":
        """The agent of the settings that it asks for, and the request as it is accepted.

        Raises:
            Misconfigured: the agent does not exist, or no model is set.
        """
        from tasks.acceptance import NewRequest, configured_agent
        from tasks.traceparent import current_traceparent

        spec = configured_agent(settings, self.agent, **self.policy)
        model = self.model or spec.model or settings.model
        if model is None:
            raise Misconfigured(f"Agent {self.agent!r} names no model; set UMBEL_MODEL.")
        new = NewRequest(
            principal=principal,
            input=self.request,
            model=model,
            workspace=self.workspace,
            run_id=RunId(self.run_id) if self.run_id else None,
            thread_id=ThreadId(self.thread_id) if self.thread_id else None,
            traceparent=self.traceparent or current_traceparent(),
            names_model=self.model is not None,
            own_policy=tuple(self.policy),
            makes_thread=self.makes_thread,
            sources=self.sources,
        )
        return replace(spec, model=model), new
