"""Carries out the checks: each on a thread of its own, in order of need, and never for long."""

import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Final, cast

from sqlalchemy.exc import DBAPIError

from models.refusals import one_line
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding, problem, skipped
from umbel.cli.safe_text import safe
from umbel.errors import UmbelError
from umbel.settings_faults import without_password

LIMIT_SECONDS: Final = 14.0
"""All checks together; what has not answered by then is said not to answer."""


@dataclass(frozen=True, slots=True)
class Check:
    """One part and how it is looked at."""

    part: str
    look: Callable[[Context], Finding]
    needs: tuple[str, ...] = ()
    """Parts without which the check is skipped."""
    after: tuple[str, ...] = ()
    """Parts whose result it uses where there is one."""


def run_checks(
    checks: Sequence[Check],
    context: Context,
    *,
    secrets: Sequence[str] = (),
    limit_seconds: float = LIMIT_SECONDS,
) -> Generator[Finding]:
    """The finding of every check in the given order, as soon as it and those before it are there.

    A check that fails is a finding of its part, not an end of the others.
    """
    deadline = time.monotonic() + limit_seconds
    findings: dict[str, Future[Finding]] = {check.part: Future() for check in checks}
    for check in checks:
        # daemon: a name server or a module of tools may hang for longer than anybody waits
        threading.Thread(
            target=_carry_out, args=(check, context, findings), name=check.part, daemon=True
        ).start()
    for check in checks:
        try:
            finding = findings[check.part].result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            finding = _silent(check, findings, limit_seconds)
        yield _presentable(finding, secrets)


def _carry_out(check: Check, context: Context, findings: Mapping[str, "Future[Finding]"]) -> None:
    for part in (*check.needs, *check.after):
        result = findings[part].result()
        context.usable[part] = not result.blocks
        if result.blocks and part in check.needs:
            cause = str(result.facts.get("depends_on", part))
            findings[check.part].set_result(skipped(check.part, cause))
            return
    findings[check.part].set_result(_looked_at(check, context))


def _looked_at(check: Check, context: Context) -> Finding:
    try:
        return check.look(context)
    except UmbelError as error:
        return problem(check.part, *found_and_remedy(str(error))).blocking()
    except DBAPIError as error:
        found = f"PostgreSQL refused a query: {one_line(str(error.orig))}"
        remedy = "Give the role of UMBEL_DATABASE_URL the right to read Umbel's tables."
        return problem(check.part, found, remedy).blocking()
    except Exception as error:  # noqa: BLE001 - one check that fails must not end the others
        found = f"the check failed: {type(error).__name__}: {one_line(str(error))}"
        remedy = "Read the message; if it names nothing of yours, report it as a defect of Umbel."
        return problem(check.part, found, remedy).blocking()


def found_and_remedy(message: str) -> tuple[str, str]:
    """An error's text; ours end with a sentence that says what to do."""
    found, _, remedy = one_line(message).rpartition(". ")
    if not found:
        return remedy, "Try again; if it stays so, look at the log of that part."
    return found, f"{remedy}."


def _silent(
    check: Check, findings: Mapping[str, "Future[Finding]"], limit_seconds: float
) -> Finding:
    """What is said of a check that has not ended: whom it waits for, or that nobody answers."""
    for part in check.needs:
        if not findings[part].done():
            return skipped(check.part, part)
    found = f"no answer within {limit_seconds:g} s"
    remedy = "Look whether the host of its address can be reached from this machine."
    return problem(check.part, found, remedy).blocking()


def _presentable(finding: Finding, secrets: Sequence[str]) -> Finding:
    """Harmless on a terminal, and without anything secret, wherever it came from."""
    return replace(
        finding,
        found=_clean(without_password(finding.found), secrets),
        remedy=None if finding.remedy is None else _clean(finding.remedy, secrets),
        facts={name: _clean_value(value, secrets) for name, value in finding.facts.items()},
    )


def _clean_value(value: object, secrets: Sequence[str]) -> object:
    match value:
        case str():
            return _clean(without_password(value), secrets)
        case list() | tuple():
            items = cast("Iterable[object]", value)  # of no known element type
            return [_clean_value(item, secrets) for item in items]
        case dict():
            pairs = cast("Mapping[object, object]", value)
            return {str(key): _clean_value(item, secrets) for key, item in pairs.items()}
        case _:
            return value


def _clean(text: str, secrets: Sequence[str]) -> str:
    shown = " ".join(safe(text).split())
    for secret in secrets:
        shown = shown.replace(secret, "***")
    return shown
