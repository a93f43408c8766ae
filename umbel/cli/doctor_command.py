"""`umbel doctor`: how every part is, and what to do."""

import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

from umbel.cli import exits
from umbel.cli.doctor.context import Context, secrets_of
from umbel.cli.doctor.finding import Finding, problem, skipped
from umbel.cli.doctor.parts import CHECKS, WITH_INVARIANTS
from umbel.cli.doctor.rendering import JsonRendering, TextRendering
from umbel.cli.doctor.running import LIMIT_SECONDS, found_and_remedy, run_checks
from umbel.cli.running_system import find_running, settings_in_use
from umbel.errors import Misconfigured
from umbel.settings import load_settings

_INVARIANTS_SECONDS: Final = 300.0
"""Rules are checked over the whole record, which may be large."""


def look_around(data: Path | None) -> Context:
    """The settings in use, and the running system they come from, if they do.

    Raises:
        Misconfigured: a setting is wrong, or nothing runs on `data`.
    """
    settings = settings_in_use(data)
    is_named = data is None and load_settings().database_url is not None
    return Context(settings, data=data, running=None if is_named else find_running(data))


def doctor_command(
    data: Path | None,
    *,
    is_json: bool,
    with_invariants: bool,
    is_verbose: bool = False,
    look: Callable[[Path | None], Context] = look_around,
) -> int:
    """Show every finding as it comes; exit code 1 where one is a problem."""
    rendering = (
        JsonRendering(sys.stdout) if is_json else TextRendering(sys.stdout, is_verbose=is_verbose)
    )
    findings: list[Finding] = []
    for finding in _findings(lambda: look(data), with_invariants=with_invariants):
        findings.append(finding)
        rendering.show(finding)
    rendering.end(findings)
    has_problem = any(finding.state == "problem" for finding in findings)
    return exits.NOT_COMPLETED if has_problem else exits.COMPLETED


def _findings(look: Callable[[], Context], *, with_invariants: bool) -> Generator[Finding]:
    checks = WITH_INVARIANTS if with_invariants else CHECKS
    try:
        context = look()
    except Misconfigured as error:
        yield _of_settings(str(error))
        yield from (skipped(check.part, "settings") for check in checks[1:])
        return
    yield from run_checks(
        checks,
        context,
        secrets=secrets_of(context.settings, os.environ),
        limit_seconds=_INVARIANTS_SECONDS if with_invariants else LIMIT_SECONDS,
    )


def _of_settings(message: str) -> Finding:
    """A list of faults, or one message that ends with what to do."""
    _, _, faults = message.partition("\n")
    if not faults:
        return problem("settings", *found_and_remedy(message))
    remedy = "Correct what is named; docs/configuration.md lists all."
    return problem("settings", " ".join(faults.split()), remedy)
