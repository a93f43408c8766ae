"""Loop policy: the slots a profile fills. Expanded, hashed and frozen into a run at acceptance."""

from typing import Final, Literal

from pydantic import ConfigDict, Field

from umbel.contracts import Frozen

PermissionMode = Literal["full_access", "ask"]
Reducer = Literal["prune", "cut", "compress"]
"""Old results become a line each; whole steps give way to a summary; results are shortened."""


class Policy(Frozen):
    """Every value the loop consults; a change of a profile never alters a run in flight."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    version: Literal[1] = 1
    iteration_cap: int | None = Field(default=None, ge=1)
    """Decided steps after which the run pauses; None: no cap."""
    tool_call_limit: int = Field(default=0, ge=0)
    """Calls after which the run pauses; 0: no limit."""
    calls_per_step: int = Field(default=128, ge=1, le=1_000)
    """Calls of one reply that run; the surplus is answered with an explicit refusal."""
    parallel: int = Field(default=8, ge=1, le=64)
    """Calls of one step that may run at once."""
    provider_retries: int = Field(default=8, ge=0, le=20)
    """Times one step's request is sent again after a retryable failure."""
    retry_base_seconds: float = Field(default=2.0, gt=0, allow_inf_nan=False)
    """First wait of the exponential back-off between those."""
    retry_max_seconds: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    """Longest wait of that back-off; a wait the endpoint asks for goes before both."""
    empty_retries: int = Field(default=2, ge=0, le=10)
    """Times an empty or unreadable reply is asked for again."""
    corrections: int = Field(default=2, ge=0, le=10)
    """Steps in a row in which no call could be run; at the next one the run pauses."""
    repeat_unchanged: int = Field(default=0, ge=0, le=50)
    """Times the same calls with the same results run before they are refused; 0: no limit."""
    repeat_failures: int = Field(default=0, ge=0, le=50)
    """Steps in a row in which all that ran may fail before such calls are refused; 0: no limit."""
    continuations: int = Field(default=4, ge=0, le=20)
    """Times an answer that was cut at the output limit is asked to go on."""
    result_view_chars: int = Field(default=16_000, ge=200)
    """What the prompt shows of a result at most; the whole stays in evidence."""
    context_share: float = Field(default=0.9, gt=0, le=1)
    """Share of the model's window that a request may fill."""
    reserve_in_share: bool = True
    """The answer's room is taken from that share; False: from the whole window."""
    context_low_share: float = Field(default=0.6, gt=0, le=1)
    """Share of its budget to which a request that is too large is reduced."""
    reducers: tuple[Reducer, ...] = Field(default=("prune", "cut", "compress"), strict=False)
    """How it is reduced, in this order."""
    protected_steps: int = Field(default=2, ge=1, le=100)
    """The latest steps, which are reduced last."""
    summary_share: float = Field(default=0.1, gt=0, le=0.5)
    """Share of the budget that the summary of earlier steps may have."""
    size_retries: int = Field(default=2, ge=0, le=10)
    """Times a request that the endpoint refused for its size is sent again, smaller each time."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Tokens one reply may have; None: as many as the endpoint gives."""
    permission_mode: PermissionMode = "ask"
    approval_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Time an owner has to approve a change before it is skipped; None: as long as it takes."""
    max_losses: int = Field(default=3, ge=1)
    """Holders one step may lose before the run pauses as `lost_worker`."""


LIMITS: Final = frozenset(
    {
        "iteration_cap",
        "tool_call_limit",
        "provider_retries",
        "empty_retries",
        "corrections",
        "repeat_unchanged",
        "repeat_failures",
        "continuations",
        "max_losses",
    }
)
"""What a resume may set anew; everything else stays as it was when the run was accepted."""
