"""Names other programs see: Celery tasks, queues, statuses, reasons. Changing one needs an ADR."""

from typing import Final, Literal, get_args

STEP: Final = "umbel.loop.step"
CALL: Final = "umbel.tools.call"

LOOP_QUEUE: Final = "umbel.loop"
SUSPECT_QUEUE: Final = "umbel.loop.suspect"
"""Steps that have cost a worker: each is carried where it can hurt nobody else."""
TOOLS_QUEUE: Final = "umbel.tools"
CONTROL_QUEUE: Final = "umbel.control"


def list_depth(slots: int) -> int:
    """Messages a queue should have at most, for workers that carry so many at once."""
    return max(2 * slots, _LEAST_DEPTH)


_LEAST_DEPTH: Final = 10
"""For workers that are about to start."""

RunStatus = Literal[
    "queued", "running", "waiting", "paused", "cancelling", "completed", "failed", "cancelled"
]
"""What people are told about a run."""

Work = Literal["none", "ready", "held", "calls"]
"""Who acts next on a run: nobody, any worker, its holder, or the tool workers."""

Reason = Literal[
    "approval_required",
    "provider_retry",
    "child_run",
    "unknown_outcome",
    "tool_call_limit",
    "iteration_limit",
    "context_capacity",
    "stall",
    "repeated_failure",
    "empty_response",
    "credentials",
    "access_withdrawn",
    "provider_error",
    "lost_worker",
    "owner_stop",
    "budget_exhausted",
    "contract_mismatch",
    "persistence_failed",
    "corrupt_record",
]
"""Why a run waits, is paused, has failed or was cancelled: a closed list."""

CallState = Literal[
    "planned",
    "awaiting_approval",
    "ready",
    "started",
    "returned",
    "refused",
    "errored",
    "skipped",
    "unknown",
]
"""Where one tool call stands."""

Effect = Literal["read", "idempotent", "mutation"]
"""What a tool does to the outside world; a tool that declares nothing is a mutation."""

Permission = Literal["allow", "ask", "deny"]
"""What comes of a call: it may start, its owner is asked first, or it may not. Strictest last."""

ApprovalWord = Literal["granted", "denied", "expired"]
"""What became of a call that asked for its owner's approval, unless it was skipped unasked."""

RuleScope = Literal["tenant", "user", "tool", "target"]
"""What a rule of authority is about."""

Placement = Literal["inline", "task"]
"""Where a tool runs: in the step worker's process, or as a Celery task of its own."""

WireName = Literal["chat", "responses"]
"""How a model endpoint is spoken to: Chat Completions, which everybody knows, or Responses."""

DecisionKind = Literal["answer", "dispatch", "retry", "pause", "discard"]
"""What the loop decided from one model reply."""

SteerMode = Literal["redirect", "append"]
"""Whether a correction voids what has not started, or waits for the step to end."""

SteerState = Literal["accepted", "applied", "deferred", "returned"]
"""What became of a correction: every accepted one ends as one of the others."""

OnBusy = Literal["enqueue", "reject", "interrupt", "steer"]
"""What becomes of a further request in a thread whose run is at work."""

Verification = Literal["happened", "not_happened", "partial"]
"""What an owner found out about a change whose outcome nobody knew."""

RUN_STATUSES: Final[tuple[RunStatus, ...]] = get_args(RunStatus)
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
WORKS: Final[tuple[Work, ...]] = get_args(Work)
CALL_STATES: Final[tuple[CallState, ...]] = get_args(CallState)
EFFECTS: Final[tuple[Effect, ...]] = get_args(Effect)
PERMISSIONS: Final[tuple[Permission, ...]] = get_args(Permission)
APPROVAL_WORDS: Final[tuple[ApprovalWord, ...]] = get_args(ApprovalWord)
RULE_SCOPES: Final[tuple[RuleScope, ...]] = get_args(RuleScope)
PLACEMENTS: Final[tuple[Placement, ...]] = get_args(Placement)
WIRES: Final[tuple[WireName, ...]] = get_args(WireName)
DECISION_KINDS: Final[tuple[DecisionKind, ...]] = get_args(DecisionKind)
STEER_MODES: Final[tuple[SteerMode, ...]] = get_args(SteerMode)
STEER_STATES: Final[tuple[SteerState, ...]] = get_args(SteerState)
ON_BUSY: Final[tuple[OnBusy, ...]] = get_args(OnBusy)
VERIFICATIONS: Final[tuple[Verification, ...]] = get_args(Verification)
SETTLED_STATUSES: Final[tuple[RunStatus, ...]] = ("paused", "completed", "failed", "cancelled")
"""Statuses that no machinery moves on by itself."""
