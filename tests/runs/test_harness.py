"""A harness that cannot fail proves nothing: it must notice what is wrong."""

from typing import Any

import pytest

from tests.cases.case_file import Case
from tests.cases.run_case import run_case
from tests.cases.system import CaseSystem
from tests.runs.scenes import a_case, asks, reads, text


def expecting(case: Case, **expect: Any) -> Case:
    return Case(case.path, {**case.data, "expect": expect})


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("status", "paused", "status: expected 'paused', found 'completed'"),
        ("model_calls", 3, "model_calls: expected 3, found 2"),
        ("executions", {"send_mail": 2}, "executions.send_mail: expected 2, found 1"),
        ("usage", {"input": 1}, "usage.input: expected 1, found 200"),
        ("messages", ["user"], "messages: expected ['user'], found ['user', 'assistant:calls"),
        ("tool_results", {"c1": {"error": True}}, "tool_results.c1.error: expected True"),
        ("actions", {"c1": {"args": {}}}, "actions.c1.args: expected {}"),
        ("stored", {"c1": {"full_chars": 9}}, "stored.c1.full_chars: expected 9, found 2"),
        ("deliveries", {"count": 2}, "deliveries.count: expected 2, found 1"),
        ("final_text", {"contains": "moon"}, "final_text: expected 'moon' in it, found 'Done.'"),
        (
            "requests",
            [{"turn": 2, "contains": [{"role": "user", "text": "moon"}]}],
            "request of turn 2: expected a message with 'moon', found none",
        ),
        ("order", ["end:c1", "start:c1"], "order: expected"),
        ("min_seconds", 30, "min_seconds: expected 30 to"),
    ],
)
def test_wrong_expectation_fails_with_what_was_found(
    calm_system: CaseSystem, field: str, value: object, line: str
) -> None:
    case = expecting(
        a_case(f"wrong-{field}", [asks(("c1", "send_mail")), text()]), **{field: value}
    )
    verdict = run_case(calm_system, case)
    assert verdict.outcome == "failed"
    assert any(problem.startswith(line) for problem in verdict.problems), verdict.problems
    assert len(verdict.problems) == 1


def test_event_whose_moment_passed_unused_fails_the_case(calm_system: CaseSystem) -> None:
    used = [{"at": "before_model:1", "do": "redeliver"}]
    missed = [{"at": "before_model:01", "do": "redeliver"}]  # no such point is ever reached
    right = expecting(a_case("used", [text()], events=used), status="completed")
    wrong = expecting(a_case("missed", [text()], events=missed), status="completed")

    assert run_case(calm_system, right).outcome == "passed"
    assert run_case(calm_system, wrong).problems == (
        "the event 'redeliver' at before_model:01 did not happen",
    )


def test_request_after_the_last_turn_fails_the_case(calm_system: CaseSystem) -> None:
    verdict = run_case(calm_system, expecting(a_case("too-short", [reads("c1")])))
    assert verdict.outcome == "failed"
    assert "main request 2: the case has no such turn" in verdict.problems
