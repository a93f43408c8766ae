"""Reading case files, and saying what cannot be run."""

import json
from pathlib import Path

import pytest

from tests.cases.case_file import Case, case_files, load_case
from tests.cases.runner import group_cases
from tests.cases.support import policy_of, unsupported


def write(folder: Path, name: str, **data: object) -> Path:
    path = folder / name
    path.write_text(json.dumps({"format": 1, **data}))
    return path


def case_of(**data: object) -> Case:
    return Case(Path("900-a.json"), {"format": 1, "run": {"input": "x"}, **data})


def test_repeated_text_is_written_out_wherever_it_stands(tmp_path: Path) -> None:
    repeat = {"$repeat": "ab", "times": 3, "then": "!"}
    path = write(tmp_path, "001-a.json", run={"input": repeat}, turns=[{"text": repeat}])
    case = load_case(path)
    assert case.run["input"] == "ababab!"
    assert case.turns == [{"text": "ababab!"}]


def test_only_chooses_files_by_the_beginning_of_their_name(tmp_path: Path) -> None:
    for name in ("001-a.json", "010-b.json"):
        write(tmp_path, name)
    (tmp_path / "FORMAT.md").write_text("no case")
    assert [p.name for p in case_files(tmp_path)] == ["001-a.json", "010-b.json"]
    assert [p.name for p in case_files(tmp_path, "010")] == ["010-b.json"]


def test_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "001-a.json"
    path.write_text('{"format": 2}')
    with pytest.raises(ValueError, match="no case of format 1"):
        load_case(path)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (case_of(mode="schedule"), "schedules"),
        (case_of(events=[{"at": "start", "do": "dance"}]), "'dance'"),
        (case_of(events=[{"at": "tick:1", "do": "kill"}]), "'tick:1'"),
        (case_of(expect={"weather": "fine"}), "expect.weather"),
        (case_of(run={"input": "x", "limits": {"patience": 3}}), "no patience"),
    ],
)
def test_what_cannot_be_run_is_said_with_its_reason(case: Case, reason: str) -> None:
    assert reason in (unsupported(case) or "")


def test_limits_become_policy_values() -> None:
    limits = {"iterations": 4, "worker_lost_retries": 2, "tool_result_chars": 300}
    case = case_of(run={"input": "x", "parallel": 2, "limits": limits})
    assert unsupported(case) is None
    assert policy_of(case) == {
        "permission_mode": "full_access",
        "parallel": 2,
        "iteration_cap": 4,
        "max_losses": 3,
        "result_view_chars": 300,
        "repeat_unchanged": 0,
        "repeat_failures": 0,
    }


def test_cases_whose_tools_contradict_each_other_get_workers_of_their_own() -> None:
    def tool(effect: str) -> dict[str, object]:
        return {"name": "look", "effect": effect, "behaviour": {"result": 1}}

    one, two, three = (case_of(tools=[tool(effect)]) for effect in ("read", "mutation", "read"))
    hurting = case_of(tools=[tool("read")], events=[{"at": "start", "do": "kill"}])
    assert group_cases([one, two, three, hurting]) == [[one, three], [two], [hurting]]
