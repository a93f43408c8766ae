import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loop.response import ModelTurn
from providers.chat import ChatProvider
from tests.providers.case_runner import read_pieces as read
from tests.providers.cases import Case, read_every_case

CASES = read_every_case()
PIECES = 8
STREAMS = [case for case in CASES if (case.path / "wire.sse").exists()]
CHAT_STREAMS = [case for case in STREAMS if case.provider is ChatProvider]


# Not after a second backslash: there it is the text of arguments that were refused for it.
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answer_read_byte_by_byte_is_the_same(case: Case) -> None:
    body = case.wire[2]
    assert read(case, (body[n : n + 1] for n in range(len(body)))) == read(case, [body])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answer_cut_at_every_boundary_is_the_same(case: Case) -> None:
    body = case.wire[2]
    whole = read(case, [body])
    apart = len(body) // PIECES + 1  # each reading is cut in several places, every place once
    for start in range(apart):
        cuts = [0, *range(start, len(body), apart), len(body)]
        assert read(case, [body[a:b] for a, b in pairwise(cuts)]) == whole, cuts


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=st.sampled_from(CASES), data=st.data())
def test_answer_in_random_pieces_is_the_same(case: Case, data: st.DataObject) -> None:
    body = case.wire[2]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    pieces = [body[a:b] for a, b in pairwise([0, *cuts, len(body)])]
    assert read(case, pieces) == read(case, [body])


@settings(max_examples=100, deadline=None)
@given(case=st.sampled_from(CASES), cut=st.floats(0, 1), noise=st.binary(max_size=12))
def test_damaged_answer_is_a_turn_not_an_exception(case: Case, cut: float, noise: bytes) -> None:
    body = case.wire[2]
    place = int(len(body) * cut)
    turn = read(case, [body[:place] + noise + body[place:]])
    stored = turn.model_dump_json()
    assert ESCAPED_NUL.search(stored) is None
    assert ModelTurn.model_validate_json(stored) == turn


@pytest.mark.parametrize("case", CHAT_STREAMS, ids=lambda case: case.name)
def test_no_call_of_a_cut_answer_runs(case: Case) -> None:
    body = case.wire[2]
    start = body.find(b'finish_reason":"')
    end = body.find(b"[DONE]") if start < 0 else start
    turn = read(case, [body[: max(end, 0)]])
    assert turn.failure is not None
    assert {call.status for call in turn.calls} <= {"incomplete"}
