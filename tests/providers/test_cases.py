from collections.abc import Iterator

import pytest

from tests.providers.case_runner import read_direct, read_over_http, run_provider_cases
from tests.providers.case_view import case_view
from tests.providers.cases import FOLDER, Case, read_every_case
from tests.providers.compare import differences
from tests.providers.replay_server import replaying

CASES = read_every_case()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with replaying(CASES) as address:
        yield address


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recorded_answer_is_read_as_it_should_be(case: Case) -> None:
    assert differences(case.expect, case_view(read_direct(case))) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recorded_answer_over_http_is_read_the_same(case: Case, address: str) -> None:
    assert differences(case.expect, case_view(read_over_http(case, address))) == []


def test_case_runner_counts_what_passed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_provider_cases(FOLDER, "usage", verbose=True) == (5, 0, 0)
    assert capsys.readouterr().out.count("pass 0") == 5
