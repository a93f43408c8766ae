"""Runs many cases on as few worker sets as their tools allow."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cases.case_file import Case, load_case
from tests.cases.run_case import Verdict, run_case
from tests.cases.scripted_tools import tools_of
from tests.cases.support import unsupported
from tests.cases.system import CaseSystem, Cast, case_system, hurts_workers, silence_of_model
from tests.services import Services
from umbel.errors import UmbelError

Group = list[Case]


class CaseRunner:
    """Runs cases one after the other; keeps a worker set while the next case can use it.

    Args:
        services: where databases and Redis come from.
        cases: all cases that will be run, so that they can share worker sets.
    """

    def __init__(self, services: Services, cases: Iterable[Case]) -> None:
        self._services = services
        self._groups = group_cases([case for case in cases if unsupported(case) is None])
        self._stack = contextlib.ExitStack()
        self._current: Group | None = None
        self._system: CaseSystem | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def run(self, case: Case) -> Verdict:
        """Run one of the cases given at the start."""
        reason = unsupported(case)
        if reason is not None:
            return Verdict(case, "unsupported", (reason,))
        group = next(g for g in self._groups if any(c.path == case.path for c in g))
        try:
            system = self._system_of(group)
        except AssertionError as error:
            return Verdict(case, "failed", ("the workers did not start",), log=str(error))
        verdict = run_case(system, case)
        if verdict.outcome == "failed":
            self._close()  # whatever it left behind must not fail the next one
        return verdict

    def _system_of(self, group: Group) -> CaseSystem:
        if self._system is None or self._current is not group:
            self._close()
            # A case says at which moment a command meets its run: what a stream has got by then
            # must not depend on how fast it hears of it.
            cast = Cast(are_woken=False)
            self._system = self._stack.enter_context(case_system(self._services, group, cast))
            self._current = group
        return self._system

    def _close(self) -> None:
        self._stack.close()
        self._system = self._current = None


def in_running_order(cases: Sequence[Case]) -> list[Case]:
    """Cases of one worker set one after the other, unsupported ones at the end."""
    groups = group_cases([case for case in cases if unsupported(case) is None])
    rest = [case for case in cases if unsupported(case) is not None]
    return [case for group in groups for case in group] + rest


def group_cases(cases: Sequence[Case]) -> list[Group]:
    """Cases that one set of workers can carry: one set of clocks, and no tool with two meanings."""
    groups: list[tuple[Group, object, dict[str, Any]]] = []
    for case in cases:
        forms = {tool.name: tool.frozen() for tool in tools_of(case)}
        clocks = (silence_of_model(case), hurts_workers(case))
        for members, its_clocks, known in groups:
            if its_clocks == clocks and all(known.get(n, f) == f for n, f in forms.items()):
                members.append(case)
                known.update(forms)
                break
        else:
            groups.append(([case], clocks, forms))
    return [members for members, _, _ in groups]


def run_files(
    services: Services, paths: Sequence[Path], on_verdict: Callable[[Verdict], None]
) -> list[Verdict]:
    """Run case files; verdicts are handed on as they come."""
    loaded = [_load(path) for path in paths]
    verdicts = [made for made in loaded if isinstance(made, Verdict)]
    for verdict in verdicts:
        on_verdict(verdict)
    cases = [made for made in loaded if isinstance(made, Case)]
    with CaseRunner(services, cases) as runner:
        for case in in_running_order(cases):
            verdict = runner.run(case)
            on_verdict(verdict)
            verdicts.append(verdict)
    return verdicts


def _load(path: Path) -> Case | Verdict:
    """The case of a file, or the verdict that it is none: the others are run all the same."""
    try:
        case = load_case(path)
        tools_of(case)
    except (ValueError, LookupError, TypeError, UmbelError) as error:
        return Verdict(Case(path, {}), "failed", (f"the file cannot be read: {error}",))
    return case
