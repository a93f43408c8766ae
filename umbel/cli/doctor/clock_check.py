"""Clocks: workers are judged by the database's, messages and approvals are read by people's."""

from typing import Final

from redis import RedisError
from sqlalchemy import text

from locks.ownership import connect
from models.diagnosis import looking
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding, ok, problem, warning

_WARNING_SECONDS: Final = 2.0
_PROBLEM_SECONDS: Final = 60.0
_NOW: Final = text("SELECT extract(epoch FROM clock_timestamp())::float")


def look_at_clocks(context: Context) -> Finding:
    """How far this machine and Redis are from the database's clock."""
    skews = {"this machine": _database_skew(context)}
    if context.usable.get("redis"):
        redis_skew = _redis_skew(context)
        if redis_skew is not None:
            skews["Redis"] = skews["this machine"] - redis_skew
    facts = {"seconds": {name: round(skew, 3) for name, skew in skews.items()}}
    found = ", ".join(
        f"{name} {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} the database"
        for name, skew in skews.items()
        if abs(skew) > _WARNING_SECONDS
    )
    if not found:
        return ok("clock", f"within {_WARNING_SECONDS:g} s of the database", **facts)
    kind = problem if max(map(abs, skews.values())) > _PROBLEM_SECONDS else warning
    remedy = (
        "Let every machine follow a time server: `timedatectl set-ntp true`, or "
        "`chronyc makestep` where chrony runs."
    )
    return kind("clock", found, remedy, **facts)


def _database_skew(context: Context) -> float:
    """Seconds by which this machine is ahead; the journey counts half."""
    with looking(context.database_url) as connection:
        connection.execute(_NOW)  # the first one also pays for the plan
        before = context.clock()
        there = float(connection.execute(_NOW).scalar_one())
        after = context.clock()
    return (before + after) / 2 - there


def _redis_skew(context: Context) -> float | None:
    """Seconds by which this machine is ahead of Redis; None where it does not tell."""
    with connect(context.redis_url, role="doctor", max_connections=1) as client:
        try:
            before = context.clock()
            seconds, microseconds = client.time()  # pyright: ignore[reportUnknownMemberType]
            after = context.clock()
        except RedisError:
            return None
    return (before + after) / 2 - (int(seconds) + int(microseconds) / 1e6)
