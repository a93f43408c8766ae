"""Every case file of the project's own data, one test each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases.badinput import run_bad_inputs
from tests.cases.case_file import Case, case_files, load_case
from tests.cases.runner import CaseRunner, in_running_order
from tests.services import Services

DATA = Path(__file__).parent.parent / "data" / "cases"
FOLDERS = (DATA / "runs", DATA / "runs-own")
WAIT_FOR_LATER = frozenset({"043", "045", "047"})
"""Schedules and sources are not there yet."""
CASES = in_running_order([load_case(path) for folder in FOLDERS for path in case_files(folder)])


@pytest.fixture(scope="module")
def runner(services: Services) -> Iterator[CaseRunner]:
    """Shares worker sets between cases."""
    with CaseRunner(services, CASES) as shared:
        yield shared


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_case_ends_as_its_file_says(runner: CaseRunner, case: Case) -> None:
    verdict = runner.run(case)
    if verdict.outcome == "unsupported" and case.number in WAIT_FOR_LATER:
        pytest.skip(verdict.problems[0])
    assert verdict.outcome == "passed", "\n".join((*verdict.problems, verdict.log))


@pytest.mark.slow
def test_bad_inputs_of_channels_that_exist_are_refused_twenty_at_once(services: Services) -> None:
    verdicts = run_bad_inputs(services, case_files(DATA / "badinput"))

    outcomes = {verdict.case.number: verdict.outcome for verdict in verdicts}
    failures = [verdict.problems for verdict in verdicts if verdict.outcome == "failed"]
    assert not failures
    assert {n for n, outcome in outcomes.items() if outcome == "passed"} >= {
        "03",
        "05",
        "07",
        "11",
        "15",
        "17",
        "19",
        "21",
        "23",
        "25",
    }
