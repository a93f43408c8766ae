"""A look at some parts of a system, as `umbel doctor` takes it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tests.services import Place
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding
from umbel.cli.doctor.parts import WITH_INVARIANTS
from umbel.cli.doctor.running import Check, run_checks
from umbel.settings import Settings, load_settings

BY_PART = {check.part: check for check in WITH_INVARIANTS}


def settings_of(place: Place, **values: Any) -> Settings:
    """The settings of a system at a place, and nothing of this machine's environment."""
    return load_settings(
        {"UMBEL_CONFIG": ""},
        database_url=place.database_url,
        redis_url=place.redis_url,
        redis_prefix=place.redis_prefix,
        **values,
    )


def look_at(part: str, context: Context | Settings) -> Finding:
    """What is found about one part; parts it needs are looked at before."""
    found = look_at_all((part,), context)
    return found[part]


def look_at_all(parts: Iterable[str], context: Context | Settings) -> dict[str, Finding]:
    """What is found about some parts and those they need."""
    if isinstance(context, Settings):
        context = Context(context)
    wanted = {name for part in parts for name in _with_needed(part)}
    checks = [_only_with(wanted, check) for check in WITH_INVARIANTS if check.part in wanted]
    return {finding.part: finding for finding in run_checks(checks, context)}


def _with_needed(part: str) -> set[str]:
    needed = {part}
    for name in BY_PART[part].needs:
        needed |= _with_needed(name)
    return needed


def _only_with(wanted: set[str], check: Check) -> Check:
    return replace(check, after=tuple(part for part in check.after if part in wanted))
