"""Systems with real workers, made by the test that needs one."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cases.system import CaseSystem, Cast, case_system
from tests.runs.private_broker import broker
from tests.runs.scenes import write_tools
from tests.services import Services
from tests.worker_processes import FAST_CLOCKS, PATIENT_CLOCKS

__all__ = ["broker", "calm_system", "make_system", "rough_system", "tools_folder"]

MakeSystem = Callable[[Cast], CaseSystem]


@pytest.fixture(scope="session")
def tools_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where workers read the scripted tools from."""
    return tmp_path_factory.mktemp("tools")


@pytest.fixture(scope="session")
def calm_system(services: Services, tools_folder: Path) -> Iterator[CaseSystem]:
    """One worker of each kind, for tests that hurt nobody at work."""
    cast = Cast(environment=PATIENT_CLOCKS)
    with case_system(services, [write_tools(tools_folder)], cast) as system:
        yield system


@pytest.fixture(scope="module")
def rough_system(services: Services, tools_folder: Path) -> Iterator[CaseSystem]:
    """For tests that kill and freeze: the dead are found soon, and every test leaves successors."""
    cast = Cast(environment=FAST_CLOCKS)
    with case_system(services, [write_tools(tools_folder)], cast) as system:
        yield system


@pytest.fixture
def make_system(services: Services, tools_folder: Path) -> Iterator[MakeSystem]:
    """Builds a system of the test's own."""
    with contextlib.ExitStack() as stack:

        def make(cast: Cast) -> CaseSystem:
            tools = write_tools(tools_folder)
            return stack.enter_context(case_system(services, [tools], cast))

        yield make
