"""What a process takes of the backlog when no message tells it: one tenant after the other.

Taking the next row is ringing oneself: the row is marked as announced, and then carried as if its
message had come. Nothing is held by that, so an answer that is lost costs nothing.
"""

from dataclasses import dataclass
from typing import Any, Final

from models.calls import MAX_READ_ATTEMPTS
from models.database import Database
from models.hot import MAY_TAKE
from umbel.contracts import CallId, RunId

# Whoever was told less than a moment ago is on its way; the tenants behind the last one come first.
_NEXT: Final = """
WITH a AS (
  SELECT x.id FROM {table} x WHERE x.tenant > %(after)s AND {ready}
  ORDER BY x.tenant, x.ring_at NULLS FIRST LIMIT 1 FOR UPDATE SKIP LOCKED),
b AS (
  SELECT x.id FROM {table} x WHERE NOT EXISTS (SELECT 1 FROM a) AND {ready}
  ORDER BY x.tenant, x.ring_at NULLS FIRST LIMIT 1 FOR UPDATE SKIP LOCKED)
UPDATE {table} SET ring_at = now()
WHERE id = (SELECT id FROM a UNION ALL SELECT id FROM b)
RETURNING {columns}
"""
_UNHEARD: Final = """
(x.ring_at IS NULL OR x.ring_at <= now() - make_interval(secs => %(heard)s))
"""

NEXT_STEP: Final = _NEXT.format(
    table="runs",
    ready=f"""x.work = 'ready' AND x.stop_at IS NULL
    AND (x.not_before IS NULL OR x.not_before <= now()) AND {_UNHEARD}
    AND (%(takes_fresh)s OR x.losses > 0) AND {MAY_TAKE.format(run="x")}""",
    columns="id, step, tenant",
)
NEXT_CALL: Final = _NEXT.format(
    table="calls",
    ready=f"""x.state = 'ready' AND {_UNHEARD}
    AND (x.effect = 'mutation' OR x.attempt < %(max_attempts)s)""",
    columns="id, tool, tenant",
)


# A step that raised before anybody held it: no attempt, no event and no holder tell of it, and its
# message is gone. Each time it waits at least twice as long, until a claim succeeds.
PUT_OFF: Final = """
UPDATE runs SET rings = least(rings + 1, 1000), not_before = now() + make_interval(
  secs => least(600, %(ring_after)s * power(2, least(rings, 12))))
WHERE id = %(run_id)s AND step = %(step)s AND work = 'ready'
RETURNING id
"""


@dataclass(frozen=True, slots=True)
class Duty:
    """Which steps a process takes."""

    takes_fresh: bool = True
    takes_suspects: bool = False
    """Steps that have cost a worker; others take them only where no such process lives."""
    may_risk: bool = True
    """Whether this process may be the one to take such a step now, where nobody else lives."""
    dead_after_seconds: float = 15.0

    def parameters(self) -> dict[str, Any]:
        """For statements that ask `MAY_TAKE`."""
        return {
            "takes_fresh": self.takes_fresh,
            "takes_suspects": self.takes_suspects,
            "may_risk": self.may_risk,
            "dead_after": self.dead_after_seconds,
        }


FRESH: Final = Duty()


@dataclass(frozen=True, slots=True)
class NextStep:
    """A ready step that nobody is on the way to."""

    run_id: RunId
    step: int
    tenant: str


@dataclass(frozen=True, slots=True)
class NextCall:
    """A ready call that nobody is on the way to."""

    call_id: CallId
    tool: str
    tenant: str


def put_off_step(
    database: Database, run_id: RunId, step: int, *, ring_after_seconds: float
) -> bool:
    """Let a ready step that could not be claimed wait; False when it is not ready any more.

    The first time for `ring_after_seconds`, then for two to four times as long as the time before,
    ten minutes at most.
    """
    asked = {"run_id": run_id, "step": step, "ring_after": ring_after_seconds}
    [rows] = database.run((PUT_OFF, asked))
    return bool(rows)


def next_step(
    database: Database, duty: Duty, *, after: str, heard_seconds: float
) -> NextStep | None:
    """The step to carry next, marked as announced: of the tenant behind `after`, if it has one.

    Steps announced less than `heard_seconds` ago are left to whoever hears of them.
    """
    asked = duty.parameters() | {"after": after, "heard": heard_seconds}
    [rows] = database.run((NEXT_STEP, asked))
    return NextStep(RunId(rows[0]["id"]), rows[0]["step"], rows[0]["tenant"]) if rows else None


def next_call(database: Database, *, after: str, heard_seconds: float) -> NextCall | None:
    """The call to run next, as `next_step`."""
    asked = {"after": after, "heard": heard_seconds, "max_attempts": MAX_READ_ATTEMPTS}
    [rows] = database.run((NEXT_CALL, asked))
    return NextCall(CallId(rows[0]["id"]), rows[0]["tool"], rows[0]["tenant"]) if rows else None
