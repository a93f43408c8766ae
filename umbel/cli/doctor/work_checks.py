"""The work itself: who is alive, what stands still, what nobody knows."""

from collections import Counter
from typing import Final

from models import diagnosis
from models.diagnosis import Rows, found_rows, known_workers, looking
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding, ok, problem, warning, worst

_WAITING_SECONDS: Final = 60.0


def look_at_workers(context: Context) -> Finding:
    """Which processes have given a sign of life to PostgreSQL."""
    with looking(context.database_url) as connection:
        workers = known_workers(connection)
    fresh = [worker for worker in workers if context.is_fresh(worker.silent_seconds)]
    roles = Counter(f"{worker.role} ({worker.pool})" for worker in fresh)
    silent = len(workers) - len(fresh)
    facts = {
        "processes": dict(roles),
        "nodes": sorted({worker.node for worker in fresh}),
        "silent": silent,
    }
    words = [f"{count} {role}" for role, count in sorted(roles.items())]
    if silent:
        words.append(f"{silent} silent for over {context.settings.dead_after_seconds:g} s")
    if not fresh:
        found = ", ".join(["no worker is alive", *words])
        remedy = "Start `umbel up`, or the processes of the Procfile."
        return problem("workers", found, remedy, **facts)
    return ok("workers", f"processes: {', '.join(words)}", **facts)


def look_at_work(context: Context) -> Finding:
    """Rows that should move and do not."""
    term = context.settings.dead_after_seconds + 5
    with looking(context.database_url) as connection:
        stages = diagnosis.depth(connection)
        runs = found_rows(connection, diagnosis.WAITING_RUNS, waiting=_WAITING_SECONDS)
        calls = found_rows(connection, diagnosis.WAITING_CALLS, waiting=_WAITING_SECONDS)
        held = found_rows(connection, diagnosis.HELD_BY_THE_DEAD, dead_after=term)
        late = found_rows(connection, diagnosis.PAST_DEADLINE)
    start = "Start the worker that the part `queues` names, or another one if all are busy."
    sweep = "Start beat (see the part `beat`): it takes back what nobody works on any more."
    concerns = [
        problem("work", f"{rows.count} {what} ({_ids(rows)})", remedy, **{key: _facts(rows)})
        for key, rows, what, remedy in (
            ("waiting_runs", runs, "runs ready for over 60 s", start),
            ("waiting_calls", calls, "calls ready for over 60 s", start),
            ("held_by_the_dead", held, "held by processes that are gone", sweep),
            ("past_deadline", late, "calls past their deadline", sweep),
        )
        if rows.count
    ]
    found = ", ".join(
        f"{count} {name.replace('_', ' ')}" for name, count in stages.items() if count
    )
    return worst("work", found or "nothing in flight", concerns, stages=stages)


def look_at_unknown(context: Context) -> Finding:
    """Changes that may or may not have happened, and runs that wait for a person."""
    with looking(context.database_url) as connection:
        unknown = found_rows(connection, diagnosis.UNKNOWN_OUTCOMES)
        paused = diagnosis.paused_runs(connection)
    pauses = ", ".join(f"{count} {reason}" for reason, count in sorted(paused.items()))
    found = f"paused runs: {pauses}" if pauses else "no paused run"
    if not unknown.count:
        return ok("unknown", f"no unknown outcome, {found}", paused=paused)
    return warning(
        "unknown",
        f"{unknown.count} changes with an unknown outcome ({_ids(unknown)}), {found}",
        "Look at the outside system whether each one happened; `umbel runs get RUN` shows what was "
        "sent. Umbel never sends it again by itself.",
        receipts=_facts(unknown),
        paused=paused,
    )


def _ids(rows: Rows) -> str:
    return ", ".join(rows.first) + (" …" if rows.count > len(rows.first) else "")


def _facts(rows: Rows) -> dict[str, object]:
    return {"count": rows.count, "first": list(rows.first)}
