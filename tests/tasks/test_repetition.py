"""Repetition and limits over whole runs: each step is another process, the history PostgreSQL's."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

import pytest

from loop.authorize import Rule
from loop.repetition import COMPARED_CHARS
from loop.request import AssistantMessage, ModelRequest, UserMessage
from loop.response import ModelTurn, Usage
from loop.transcript import CONTINUE
from models.approvals import expire_approvals
from models.authority import say
from models.database import Database
from models.owner import resume_run, steer_run, stop_run
from models.records import load_spec
from tasks.resuming import other_limits
from tests.factories import OWNER, RunWish, a_run, a_tool
from tests.invariants import violations
from tests.models.story import call_states, change, event_kinds, query, run_row
from tests.tasks.process import a_process, asked, said
from tools.definition import Tool
from umbel.contracts import RunId
from umbel.names import Effect, SteerMode

LIMITS: Final = {
    "repeat_unchanged": 3,
    "repeat_failures": 3,
    "corrections": 2,
    "permission_mode": "full_access",
}
A: Final = asked(("a", "{}"))
B: Final = asked(("b", "{}"))


@dataclass
class Story:
    """One run whose every step is carried by a process that knows nothing but the database."""

    database: Database
    tools: tuple[Tool, ...]
    policy: Mapping[str, Any] = field(default_factory=lambda: LIMITS)
    requests: list[ModelRequest] = field(default_factory=list)
    run_id: RunId = field(init=False)

    def __post_init__(self) -> None:
        wish = RunWish(tools=self.tools, policy=self.policy)
        self.run_id = a_run(self.database, wish).run_id

    def says(self, *turns: ModelTurn) -> None:
        """Carry a step per reply, while the run takes them."""
        for turn in turns:
            process = a_process(self.database, *self.tools)
            process.model.script.append(turn)
            step = self.row["step"]
            process.step(self.run_id, step)
            self.requests += process.model.requests
            while process.bell.calls:  # but not the next step: it is another process's
                process.call(process.bell.calls.pop(0))

    @property
    def row(self) -> dict[str, Any]:
        return run_row(self.database, self.run_id)

    @property
    def end(self) -> tuple[str, str | None]:
        return self.row["status"], self.row["reason"]

    def states(self) -> list[str]:
        """States of all calls, in order."""
        steps = range(1, self.row["step"] + 1)
        return [s for step in steps for s in call_states(self.database, self.run_id, step)]


def a_story(
    database: Database,
    *functions: Callable[..., object],
    effect: Effect = "read",
    **policy: Any,
) -> Story:
    """A run with the tools `a`, `b`, … that do this."""
    tools = [a_tool(name, f, effect=effect) for name, f in zip("abcd", functions, strict=False)]
    return Story(database, tuple(tools), {**LIMITS, **policy})


def same(**_: object) -> str:
    return "the same"


def broken(**_: object) -> str:
    raise ConnectionError(f"attempt {next(_tries)} was refused")


_tries = count(1)


def test_the_same_read_again_and_again_is_corrected_twice_and_then_the_run_pauses(
    database: Database,
) -> None:
    story = a_story(database, same)
    story.says(*[A] * 6)
    assert story.states() == ["returned"] * 3 + ["errored"] * 2
    assert story.end == ("paused", "stall")
    assert event_kinds(database, story.run_id).count("doom_loop") == 2
    assert violations(database) == []


def test_the_model_is_told_why_a_repeated_call_was_not_run(database: Database) -> None:
    story = a_story(database, same)
    story.says(*[A] * 4, said())
    result = story.requests[-1].messages[-1]
    assert "goes round in a circle" in str(result)
    assert story.end[0] == "completed"


def test_a_circle_of_two_is_found_across_processes(database: Database) -> None:
    story = a_story(database, same, same)
    story.says(*[A, B] * 5)
    assert story.states() == ["returned"] * 6 + ["errored"] * 2
    assert story.end == ("paused", "stall")


def test_many_of_the_same_call_in_one_reply_run_three_times(database: Database) -> None:
    story = a_story(database, same)
    story.says(asked(*[("a", "{}")] * 6))
    assert story.states() == ["returned"] * 3 + ["errored"] * 3
    assert story.row["corrections"] == 0


def test_pages_and_polls_that_bring_something_new_go_on(database: Database) -> None:
    news, steps = count(1), 10
    story = a_story(database, same, lambda **_: next(news))
    pages = [asked(("a", json.dumps({"cursor": n})), ("b", "{}")) for n in range(steps)]
    story.says(*pages, said())
    assert story.end[0] == "completed"
    assert story.states() == ["returned"] * 2 * steps


def test_other_arguments_far_behind_are_another_call(database: Database) -> None:
    story = a_story(database, same)
    long = ["x" * COMPARED_CHARS + str(n) for n in range(5)]
    story.says(*[asked(("a", json.dumps({"text": text}))) for text in long])
    assert story.states() == ["returned"] * 5
    story.says(*[asked(("a", json.dumps({"text": long[-1]})))] * 3)
    assert story.states()[5:] == ["returned"] * 2 + ["errored"]


def test_what_a_change_may_have_changed_is_read_again(database: Database) -> None:
    tools = (a_tool("a", same), a_tool("write", same, effect="mutation"))
    story = Story(database, tools)
    story.says(*[A] * 3, asked(("write", "{}")), A, said())
    assert story.states() == ["returned"] * 5


def test_a_change_that_is_made_again_and_again_is_a_circle_too(database: Database) -> None:
    tools = (a_tool("a", same), a_tool("write", same, effect="mutation"))
    story = Story(database, tools)
    story.says(*[asked(("write", "{}")), A] * 5)
    assert story.states().count("returned") == 6
    assert story.end == ("paused", "stall")


@pytest.mark.parametrize("mode", ["append", "redirect"])
def test_a_correction_makes_the_history_forgotten(database: Database, mode: SteerMode) -> None:
    story = a_story(database, same)
    story.says(*[A] * 4)
    assert story.row["corrections"] == 1
    assert steer_run(database, story.run_id, OWNER, "Look once more.", mode) is not None
    story.says(A, A, A, A)
    assert story.states()[4:] == ["returned"] * 3 + ["errored"]


def test_a_tool_that_always_fails_is_corrected_twice_and_then_the_run_pauses(
    database: Database,
) -> None:
    story = a_story(database, broken)
    story.says(*[asked(("a", json.dumps({"n": n}))) for n in range(6)])
    assert story.end == ("paused", "repeated_failure")
    ran = query(database, "SELECT count(*) AS n FROM calls WHERE attempt > 0")
    assert ran == [{"n": 3}]
    assert event_kinds(database, story.run_id).count("doom_loop") == 2


def test_a_resumed_run_is_corrected_again_before_it_pauses_again(database: Database) -> None:
    story = a_story(database, same)
    story.says(*[A] * 6)
    assert resume_run(database, story.run_id, OWNER) is not None
    story.says(A, A, A)
    assert story.states() == ["returned"] * 3 + ["errored"] * 4
    assert story.end == ("paused", "stall")


def test_a_run_that_waits_for_its_owner_is_not_corrected_for_asking(database: Database) -> None:
    tools = (a_tool("write", same, effect="mutation"),)
    story = Story(database, tools, {**LIMITS, "permission_mode": "ask", "repeat_unchanged": 0})
    story.says(asked(("write", "{}")))
    assert story.row["corrections"] == 0
    assert story.end == ("waiting", "approval_required")


@pytest.mark.parametrize("rule", [Rule("tool", "a", "deny"), Rule("tenant", "", "deny")])
def test_what_rules_forbid_is_not_asked_for_without_end(database: Database, rule: Rule) -> None:
    story = a_story(database, same, effect="mutation", repeat_unchanged=0, repeat_failures=0)
    say(database, OWNER, rule, "For the test.")
    story.says(*[asked(("a", json.dumps({"n": n}))) for n in range(6)])
    assert story.states() == ["refused"] * 2
    assert story.end == ("paused", "repeated_failure")
    assert len(story.requests) == 3
    assert violations(database) == []


def test_an_owner_whose_access_is_withdrawn_stops_being_served_at_the_next_decision(
    database: Database,
) -> None:
    story = a_story(database, same)
    revoked = Rule("user", OWNER.user, "deny")
    story.says(asked(("a", '{"n":1}')))
    say(database, OWNER, revoked, "For the test.")
    story.says(*[asked(("a", json.dumps({"n": n}))) for n in (2, 3)])
    assert story.states() == ["returned"]
    assert story.end == ("paused", "access_withdrawn")
    assert len(story.requests) == 2
    say(database, OWNER, replace(revoked, permission="allow"), "For the test.")
    assert resume_run(database, story.run_id, OWNER) == 2
    story.says(said("unused"))
    assert story.states() == ["returned"] * 2, "the reply that was paid for is decided anew"
    assert len(story.requests) == 2
    assert violations(database) == []


def test_a_model_that_asks_an_owner_who_is_not_there_pauses_its_run(database: Database) -> None:
    ask = {"permission_mode": "ask", "approval_seconds": 60.0, "repeat_unchanged": 0}
    story = a_story(database, same, effect="mutation", **ask)
    for n in range(20):
        story.says(asked(("a", json.dumps({"n": n}))))
        if story.end[0] == "paused":
            break
        run_out_of_time(database)
    assert story.states() == ["skipped"] * 3 + ["errored"] * 2
    assert story.end == ("paused", "repeated_failure")
    assert violations(database) == []


def test_the_same_question_that_nobody_answers_is_a_circle(database: Database) -> None:
    ask = {"permission_mode": "ask", "approval_seconds": 60.0, "repeat_failures": 0}
    story = a_story(database, same, effect="mutation", **ask)
    for _ in range(20):
        story.says(A)
        if story.end[0] == "paused":
            break
        run_out_of_time(database)
    assert story.states() == ["skipped"] * 3 + ["errored"] * 2
    assert story.end == ("paused", "stall")


def test_what_a_stop_skipped_is_no_failure_of_the_tool(database: Database) -> None:
    story = a_story(database, same, effect="mutation", permission_mode="ask")
    for step in range(1, 7):
        story.says(A)
        assert stop_run(database, story.run_id, OWNER)
        assert resume_run(database, story.run_id, OWNER) == step + 1
    assert story.states() == ["skipped"] * 6


def run_out_of_time(database: Database) -> None:
    change(database, "UPDATE calls SET approval_until = now() WHERE settled_at IS NULL")
    expire_approvals(database, limit=10)


@pytest.mark.parametrize(
    ("limit", "name", "done"), [(2, "tool_call_limit", 2), (3, "iteration_cap", 2)]
)
def test_a_limit_pauses_and_a_resume_goes_on_with_the_reply_that_met_it(
    database: Database, limit: int, name: str, done: int
) -> None:
    story = Story(database, (a_tool("a", same),), {**LIMITS, name: limit})
    reads = [asked(("a", json.dumps({"n": n}))) for n in range(3)]
    story.says(*reads)
    reason = {"iteration_cap": "iteration_limit"}.get(name, name)
    assert story.end == ("paused", reason)
    assert story.states() == ["returned"] * done
    spec = load_spec(database, story.run_id)
    off = other_limits(spec, {name: 0 if name == "tool_call_limit" else None})
    assert resume_run(database, story.run_id, OWNER, limits=off) is not None
    story.says(said("Never asked for: the stored reply comes first."))
    assert story.states() == ["returned"] * 3
    story.says(said())
    assert story.row["status"] == "completed"
    assert len(story.requests) == 4
    assert violations(database) == []


def test_a_resume_under_the_same_limit_pauses_again_and_costs_nothing(database: Database) -> None:
    story = a_story(database, same, tool_call_limit=1)
    story.says(asked(("a", "{}"), ("a", "{}")))
    assert story.states() == [], "never one more than the limit"
    assert resume_run(database, story.run_id, OWNER) is not None
    story.says(said("Not asked."))
    assert story.end == ("paused", "tool_call_limit")
    assert len(story.requests) == 1


def test_a_correction_voids_the_reply_that_met_a_limit(database: Database) -> None:
    story = a_story(database, same, tool_call_limit=1)
    story.says(asked(("a", "{}"), ("a", "{}")))
    assert steer_run(database, story.run_id, OWNER, "Answer now.", "redirect") is not None
    assert resume_run(database, story.run_id, OWNER) is not None
    story.says(said("Done."))
    assert story.row["answer"] == "Done."
    assert violations(database) == []


def cut(text: str) -> ModelTurn:
    return ModelTurn(text=text, usage=Usage(total_tokens=7), finish="length")


def test_an_answer_that_was_cut_goes_on_and_is_delivered_whole(database: Database) -> None:
    story = a_story(database, same)
    story.says(A, cut("One, "), cut("two, "), said("three."))
    assert story.row["answer"] == "One, two, three."
    *_, assistant, note = story.requests[-1].messages
    assert isinstance(assistant, AssistantMessage)
    assert (assistant.text, note) == ("two, ", UserMessage(CONTINUE))
    assert violations(database) == []


def test_words_before_a_call_are_no_part_of_the_answer(database: Database) -> None:
    story = a_story(database, same)
    story.says(cut("Not this. "), A, said("This."))
    assert story.row["answer"] == "This."


def test_what_was_cut_before_a_correction_is_no_part_of_the_answer(database: Database) -> None:
    story = a_story(database, same)
    story.says(cut("Not this. "))
    assert steer_run(database, story.run_id, OWNER, "Shorter.", "append") is not None
    story.says(said("This."))
    assert story.row["answer"] == "This."


def test_an_answer_that_is_cut_for_ever_pauses_the_run(database: Database) -> None:
    story = a_story(database, same, continuations=2)
    story.says(cut("1"), cut("2"), cut("3"))
    assert story.end == ("paused", "iteration_limit")
    assert len(story.requests) == 3
