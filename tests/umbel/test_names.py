"""Names other programs see: written down here a second time, so that none changes by accident."""

from umbel import names
from umbel.errors import (
    InvalidInput,
    InvariantBroken,
    LeaseLost,
    Misconfigured,
    NotFound,
    Rejected,
    UmbelError,
    Unavailable,
)


def test_tasks_and_queues_keep_their_names() -> None:
    assert (names.STEP, names.CALL) == ("umbel.loop.step", "umbel.tools.call")
    assert (names.LOOP_QUEUE, names.TOOLS_QUEUE, names.CONTROL_QUEUE) == (
        "umbel.loop",
        "umbel.tools",
        "umbel.control",
    )


def test_statuses_keep_their_names() -> None:
    assert names.RUN_STATUSES == (
        "queued",
        "running",
        "waiting",
        "paused",
        "cancelling",
        "completed",
        "failed",
        "cancelled",
    )
    assert set(names.SETTLED_STATUSES) == {"paused", "completed", "failed", "cancelled"}
    assert names.WORKS == ("none", "ready", "held", "calls")
    assert names.EFFECTS == ("read", "idempotent", "mutation")
    assert names.PLACEMENTS == ("inline", "task")


def test_reasons_are_a_closed_list_without_doubles() -> None:
    assert len(set(names.REASONS)) == len(names.REASONS) == 19
    assert {"unknown_outcome", "lost_worker", "owner_stop"} <= set(names.REASONS)


def test_only_an_outage_is_worth_repeating() -> None:
    assert all(issubclass(kind, Rejected) for kind in (InvalidInput, NotFound, Misconfigured))
    for kind in (Rejected, Unavailable, LeaseLost, InvariantBroken):
        assert issubclass(kind, UmbelError)
    assert not issubclass(Unavailable, Rejected)
    assert not issubclass(InvariantBroken, Unavailable)
