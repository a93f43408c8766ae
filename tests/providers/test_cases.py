import pytest

from providers.normalise import normalise
from tests.providers.case_view import case_view
from tests.providers.cases import Case, read_cases
from tests.providers.compare import differences

CASES = read_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recorded_answer_is_read_as_it_should_be(case: Case) -> None:
    status, headers, body = case.wire
    turn = normalise([body], status=status, headers=headers, offered=case.offered, facts=case.facts)
    assert differences(case.expect, case_view(turn)) == []
