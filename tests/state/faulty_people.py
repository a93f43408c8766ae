"""Verbs with something missing, about who says what, how often and how much."""

from collections.abc import Sequence

from tests.state import owner_verbs, verbs
from tests.state.record import Claim, Done, Planned, Rows


def steer_without_looking_at_the_key(
    rows: Rows, mode: str, *, who: str = "owner", key: str | None = None
) -> Done:
    done = owner_verbs.steer_run(rows._replace(keys=()), mode, who=who, key=key)
    return done._replace(rows=done.rows._replace(keys=rows.keys + done.rows.keys))


def steer_that_takes_everybody_for_the_owner(
    rows: Rows, mode: str, *, who: str = "owner", key: str | None = None
) -> Done:
    done = owner_verbs.steer_run(rows, mode, who=who, key=key)
    must = rows.run.owner_must_approve
    return done._replace(rows=done.rows.with_run(done.rows.run._replace(owner_must_approve=must)))


def dispatch_that_counts_nothing(rows: Rows, claim: Claim, planned: Sequence[Planned]) -> Done:
    done = verbs.commit_dispatch(rows, claim, planned)
    used = rows.run.calls_used
    return done._replace(rows=done.rows.with_run(done.rows.run._replace(calls_used=used)))


def resume_of_a_run_that_works(rows: Rows, *, limit: int | None = None) -> Done:
    """Another limit, set while the run goes on by the old one."""
    if limit is None or rows.run.status != "running":
        return owner_verbs.resume_run(rows, limit=limit)
    return Done(rows.with_run(rows.run._replace(call_limit=1)), is_done=True)


def put_off_for_ever(rows: Rows, step: int) -> Done:
    done = verbs.put_off_step(rows, step)
    return done._replace(rows=done.rows.with_run(done.rows.run._replace(work="none")))
