"""The record of one run as the check sees it: columns that some statement decides by, and no more.

Times are yes or no: over, or not yet. Numbers that only grow (event numbers) are left out; the
conformance test compares them with the database's.
"""

from typing import Final, NamedTuple

Worker = int
"""0 and 1 are the processes of the check."""
GONE: Final[Worker] = -1
"""Any process that is dead for good."""

SHARED: Final = "shared"
"""A resource key that another run has changes of, too."""

CallRef = tuple[int, int]
"""Step and position."""

OPEN_STATES: Final = ("planned", "awaiting_approval", "ready", "started")
UNSTARTED: Final = ("planned", "awaiting_approval", "ready")
SETTLED: Final = ("paused", "completed", "failed", "cancelled")


class Run(NamedTuple):
    """A row of `runs`."""

    status: str = "running"
    reason: str | None = None
    work: str = "ready"
    step: int = 1
    attempts: int = 0
    losses: int = 0
    failures: int = 0
    corrections: int = 0
    fence: int = 0
    holder: Worker | None = None
    open_calls: int = 0
    open_approvals: int = 0
    unknowns: int = 0
    calls_used: int = 0
    steer_rev: int = 0
    is_stopped: bool = False
    steers: int = 0
    must_wait: bool = False
    is_answered: bool = False
    pause_reason: str | None = None
    owner_must_approve: bool = False
    policy_rev: int = 0
    call_limit: int = 0
    """Of its policy: calls it may ask for; 0: no limit."""


class ModelCall(NamedTuple):
    """A row of `model_calls`."""

    step: int
    attempt: int
    state: str = "open"
    decision: str | None = None
    has_usage: bool = False
    """Usage and reply: one write stores both."""
    steers: int = 0


class Receipt(NamedTuple):
    """A row of `receipts`."""

    outcome: str | None = None
    is_late: bool = False
    verified: str | None = None
    late_outcome: str | None = None


class Call(NamedTuple):
    """A row of `calls`, with its receipt."""

    step: int
    position: int
    effect: str
    args: str
    state: str
    attempt: int = 0
    holder: Worker | None = None
    """While it is started; later nothing asks for it."""
    steer_rev: int = 0
    is_overdue: bool = False
    """Its deadline is over."""
    receipt: Receipt | None = None
    needs_approval: bool = False
    is_approved: bool = False
    is_lapsed: bool = False
    """Time to approve it, or to start it once it is approved, is over."""
    misses: int = 0
    key: str = ""
    """What a change touches."""
    quiet: str = ""
    """Once its owner has looked: `active` while it may still be on its way, then `over`."""

    @property
    def ref(self) -> CallRef:
        """How messages and memories name it."""
        return (self.step, self.position)

    @property
    def is_change(self) -> bool:
        """It changes the outside world."""
        return self.effect == "mutation"

    @property
    def is_on_its_way(self) -> bool:
        """No other change of its key may start."""
        return self.is_change and (self.state in ("started", "unknown") or self.quiet == "active")

    @property
    def may_start(self) -> bool:
        """Its owner has approved it, if that is needed, and lately enough."""
        return not self.needs_approval or (self.is_approved and not self.is_lapsed)


class Steer(NamedTuple):
    """A row of `steers`."""

    mode: str
    state: str = "accepted"
    is_foreign: bool = False
    """Of a collaborator."""

    def ending(self, state: str) -> "Steer":
        """The same, ended, unless it has ended before."""
        return self._replace(state=state) if self.state == "accepted" else self


class Rows(NamedTuple):
    """All rows of the run."""

    run: Run = Run()
    models: tuple[ModelCall, ...] = ()
    calls: tuple[Call, ...] = ()
    steers: tuple[Steer, ...] = ()
    keys: tuple[str, ...] = ()
    """Under which people have acted upon the run: in its events."""
    is_taken: bool = False
    """A change of another run, of the key `SHARED`, is on its way."""

    def call(self, ref: CallRef) -> Call | None:
        """The call, if it is there."""
        for call in self.calls:
            if call.ref == ref:
                return call
        return None

    def with_run(self, run: Run) -> "Rows":
        """The same with another run row."""
        return self._replace(run=run)

    def with_call(self, changed: Call) -> "Rows":
        """The same with one call changed."""
        return self._replace(
            calls=tuple(changed if call.ref == changed.ref else call for call in self.calls)
        )


class Claim(NamedTuple):
    """What a step worker remembers of its claim."""

    step: int
    fence: int
    worker: Worker
    attempt: int
    steer_rev: int
    steers: int
    is_stored: bool
    """A stored reply is applied; nobody is asked."""
    failures: int
    corrections: int
    calls_used: int
    claims: int
    owner_must_approve: bool = False
    policy_rev: int = 0


class Planned(NamedTuple):
    """A call of a reply after preflight."""

    effect: str
    args: str
    state: str = "ready"
    repeats: bool = False
    key: str = ""


class Done(NamedTuple):
    """What a verb did."""

    rows: Rows
    numbers: int = 0
    """Event numbers it took from the run's counter."""
    events: tuple[str, ...] = ()
    """Kinds of the events it wrote."""
    claim: Claim | None = None
    is_done: bool = False
    attempt: int = 0
    """Of the call it started."""
    next_step: int | None = None
    next_call: CallRef | None = None
