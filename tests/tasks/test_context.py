"""Requests fit their model's window; what is left out gives way to a summary, booked and applied
only while nothing has moved."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from loop.request import (
    AssistantMessage,
    Message,
    ModelRequest,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from loop.response import Failure, ModelTurn, Usage
from loop.transcript import GO_ON
from models.database import Database
from models.owner import resume_run, steer_run, stop_run
from models.runs import Accepted
from providers.contract import RequestForm, StreamControl
from providers.profiles import profile_for
from providers.render import render_body
from tasks.rebuilding import rebuild_request
from tests.factories import OWNER, RunWish, a_run, a_tool
from tests.invariants import violations
from tests.loop.histories import unpaired
from tests.models.story import change, event_kinds, query, run_row
from tests.tasks.process import Process, a_process, asked, said

REQUEST = "Summarise pages {1} to 4. Never use the word urgent."
PAGE = "words of a page, " * 180
"""About 3,000 characters."""
_PROFILE = profile_for("http://127.0.0.1:1/v1", "chat")


@dataclass
class Reader:
    """A process, its run over pages, and a model that reads on and on."""

    process: Process
    database: Database
    run: Accepted
    says_of_summary: Callable[[int, StreamControl], ModelTurn]
    summaries: int = 0
    bodies: dict[tuple[int, str], bytes] = field(default_factory=dict)
    """What was sent, by number and purpose."""

    @property
    def requests(self) -> list[ModelRequest]:
        return [r for r in self.process.model.requests if r.purpose == "main"]

    @property
    def summary_requests(self) -> list[ModelRequest]:
        return [r for r in self.process.model.requests if r.purpose == "compact"]

    def read(self, steps: int) -> None:
        """Carry the run through so many steps, each with one more page."""
        for _ in range(steps):
            self.process.model.script.extend([asked(("page", f'{{"n":{len(self.bodies)}}}'))])
            self.step()

    def step(self) -> str:
        """One step, and its calls."""
        step = run_row(self.database, self.run.run_id)["step"]
        line = self.process.step(self.run.run_id, step)
        for call_id in list(self.process.bell.calls):
            self.process.bell.calls.remove(call_id)
            self.process.call(call_id)
        return line


def notes(number: int, _: StreamControl) -> ModelTurn:
    return ModelTurn(
        text=f"Notes number {number}.",
        usage=Usage(input_tokens=900, output_tokens=30, total_tokens=930),
        finish="stop",
    )


def a_reader(
    database: Database,
    says_of_summary: Callable[[int, StreamControl], ModelTurn] = notes,
    *,
    window: int = 4_000,
    page: str = PAGE,
    profile: str = "plain",
    request: str = REQUEST,
) -> Reader:
    tool = a_tool("page", lambda n: f"page {n}: {page}")
    process = a_process(database, tool)
    wish = RunWish(input=request, tools=(tool,), window=window, output_reserve=400, profile=profile)
    reader = Reader(process, database, a_run(database, wish), says_of_summary)
    _listen(reader)
    return reader


def _listen(reader: Reader) -> None:
    """Let the model answer requests for summaries by itself, and keep what was sent."""
    model, sent = reader.process.model, count(1)
    answer = model.stream

    def render(request: ModelRequest, _: RequestForm) -> bytes:
        return render_body(request, _PROFILE, "chat:here")

    def stream(request: ModelRequest, body: bytes, control: StreamControl) -> ModelTurn:
        reader.bodies[next(sent), request.purpose] = body
        if request.purpose == "main":
            return answer(request, body, control)
        model.requests.append(request)
        reader.summaries += 1
        return reader.says_of_summary(reader.summaries, control)

    scripted: Any = model  # the scripted model is the tests' own
    scripted.render, scripted.stream = render, stream


def texts(messages: tuple[Message, ...], kind: type[Message]) -> Iterator[str]:
    return (str(getattr(message, "text", "")) for message in messages if isinstance(message, kind))


def summaries(database: Database) -> list[dict[str, object]]:
    return query(database, "SELECT * FROM summaries ORDER BY number")


def test_a_run_that_outgrows_its_window_goes_on_with_summaries(database: Database) -> None:
    reader = a_reader(database)
    reader.read(12)
    reader.process.model.script.append(said("All is read."))
    assert reader.step().startswith("answer")
    rows = summaries(database)
    assert len(rows) >= 2
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["previous"] for row in rows] == [None, *(row["id"] for row in rows[:-1])]
    for request in reader.requests:
        assert next(texts(request.messages, UserMessage)) == REQUEST
        assert not any("Notes number" in text for text in texts(request.messages, SystemMessage))
        assert not any("Notes number" in text for text in texts(request.messages, UserMessage))
        assert unpaired(request.messages[1:]) == []
    last = reader.requests[-1].messages
    assert f"Notes number {len(rows)}." in texts(last, AssistantMessage)
    assert GO_ON in texts(last, UserMessage)
    assert violations(database) == []
    assert len(query(database, "SELECT 1 FROM evidence")) == 12, "nothing is ever removed"


def test_a_merge_is_made_from_the_earlier_notes_and_only_what_came_since(
    database: Database,
) -> None:
    reader = a_reader(database)
    reader.read(14)
    rows = summaries(database)
    first, second = reader.summary_requests[:2]
    assert (first.tools, second.tools) == ((), ())
    [_, sources] = second.messages
    assert isinstance(sources, UserMessage)
    assert sources.text.startswith('Earlier notes: "Notes number 1."')
    border = rows[0]["first_kept_step"]
    told = [line for line in sources.text.splitlines() if '"role": "tool"' in line]
    ids = [json.loads(line)["call"] for line in told]
    covered = query(
        database, "SELECT id FROM calls WHERE step >= %(a)s AND step < %(b)s ORDER BY step",
        a=border, b=rows[1]["first_kept_step"],
    )  # fmt: skip
    assert ids == [row["id"] for row in covered]


def test_every_request_can_be_rebuilt_with_those_for_summaries(database: Database) -> None:
    reader = a_reader(database)
    reader.read(9)
    steer_run(database, reader.run.run_id, OWNER, "In French.", "append")
    reader.read(5)
    sent = {hash(body) for body in reader.bodies.values()}
    rows = query(
        database, "SELECT step, attempt, purpose FROM model_calls WHERE manifest IS NOT NULL"
    )
    rebuilt = [
        rebuild_request(
            database, {"chat": reader.process.model}, reader.run.run_id, row["step"], row["attempt"]
        )
        for row in rows
    ]
    assert [r.purpose for r in rebuilt] == [row["purpose"] for row in rows]
    assert {hash(r.body) for r in rebuilt} == sent
    assert len(rebuilt) == len(reader.bodies)


def test_what_a_summary_cost_is_a_row_of_its_own(database: Database) -> None:
    reader = a_reader(database)
    reader.read(5)
    [row, *_] = query(database, "SELECT * FROM model_calls WHERE purpose = 'compact'")
    assert (row["state"], row["decision"], row["input_tokens"], row["output_tokens"]) == (
        "closed",
        None,
        900,
        30,
    )
    [made, *_] = summaries(database)
    assert (made["step"], made["attempt"]) == (row["step"], row["attempt"])


def test_a_summary_in_whose_making_somebody_corrected_the_run_is_dropped(
    database: Database,
) -> None:
    def steered(number: int, control: StreamControl) -> ModelTurn:
        if number == 1:
            steer_run(database, reader.run.run_id, OWNER, "Only odd pages.", "append")
        return notes(number, control)

    reader = a_reader(database, steered)
    reader.read(3)
    while not reader.summaries:
        reader.process.model.script.clear()
        reader.read(1)
    assert event_kinds(database, reader.run.run_id)[-1] == "step.handed_back"
    assert summaries(database) == []
    [row] = query(database, "SELECT * FROM model_calls WHERE purpose = 'compact'")
    assert (row["state"], row["input_tokens"]) == ("closed", 900)
    reader.step()
    assert len(summaries(database)) == 1
    assert "Only odd pages." in texts(reader.requests[-1].messages, UserMessage)
    assert violations(database) == []


def test_a_stop_ends_the_stream_of_a_summary(database: Database) -> None:
    def stopped(_: int, control: StreamControl) -> ModelTurn:
        stop_run(database, reader.run.run_id, OWNER)
        reason = control.watch()
        assert reason == "stop"
        control.handle.abort(reason)
        failure = Failure(error_class="aborted", is_retryable=True)
        return ModelTurn(failure=failure, usage=Usage(input_tokens=5, is_estimated=True))

    reader = a_reader(database, stopped)
    while not reader.summaries:
        reader.process.model.script.clear()
        reader.read(1)
    assert run_row(database, reader.run.run_id)["status"] == "cancelled"
    assert summaries(database) == []
    [row] = query(database, "SELECT * FROM model_calls WHERE purpose = 'compact'")
    assert (row["state"], row["input_tokens"]) == ("closed", 5)
    assert violations(database) == []


@pytest.mark.parametrize(
    "reply",
    [
        ModelTurn(failure=Failure(error_class="server", is_retryable=True, message="down")),
        ModelTurn(text="  "),
        ModelTurn(text="x" * 20_000),
        ModelTurn(text="Half of the no", finish="length"),
    ],
)
def test_without_a_summary_the_run_goes_on_with_a_plain_cut_and_an_event(
    database: Database, reply: ModelTurn
) -> None:
    reader = a_reader(database, lambda _number, _control: reply)
    reader.read(6)
    rows = summaries(database)
    assert {row["kind"] for row in rows} == {"trim"}
    assert "context.trimmed" in event_kinds(database, reader.run.run_id)
    last = reader.requests[-1].messages
    assert next(texts(last, UserMessage)) == REQUEST
    assert any("there is no summary of them" in text for text in texts(last, AssistantMessage))
    assert run_row(database, reader.run.run_id)["status"] == "running"
    assert violations(database) == []


def test_old_results_give_way_before_a_summary_is_paid_for(database: Database) -> None:
    reader = a_reader(database, profile="steward", page=PAGE, window=8_000)
    reader.read(12)
    assert reader.summaries == 0
    results = list(texts(reader.requests[-1].messages, ToolMessage))
    calls = [row["id"] for row in query(database, "SELECT id FROM calls ORDER BY step")]
    assert results[0].endswith(f"evidence {calls[0]}]")
    assert results[-1].startswith('"page ')


def test_a_request_that_can_never_fit_pauses_the_run_and_nothing_is_sent(
    database: Database,
) -> None:
    reader = a_reader(database, request="contract " * 4_000)
    assert reader.step() == "pause context_capacity, 0 tok"
    row = run_row(database, reader.run.run_id)
    assert (row["status"], row["reason"]) == ("paused", "context_capacity")
    assert "Nothing was sent." in row["detail"]
    assert reader.process.model.requests == []
    assert violations(database) == []


def refusal() -> ModelTurn:
    failure = Failure(error_class="context_length", is_retryable=False, message="too long")
    return ModelTurn(failure=failure)


def test_a_request_refused_for_its_size_is_never_sent_again_and_gets_smaller(
    database: Database,
) -> None:
    reader = a_reader(database, window=40_000)
    reader.read(3)
    reader.process.model.script.extend([refusal(), refusal(), refusal()])
    assert reader.step() == "retry context_length, unknown tok"
    assert reader.step() == "retry context_length, unknown tok"
    assert reader.step() == "pause context_capacity, unknown tok"
    bodies = [body for (_, purpose), body in reader.bodies.items() if purpose == "main"][-3:]
    assert len(set(bodies)) == 3
    assert len(bodies[0]) > len(bodies[1]) > len(bodies[2])
    assert violations(database) == []


def test_after_a_refusal_the_rest_of_the_run_stays_below_it(database: Database) -> None:
    reader = a_reader(database, window=40_000)
    reader.read(5)
    refused = len(max(reader.bodies.values(), key=len))
    reader.process.model.script.append(refusal())
    reader.step()
    reader.read(6)
    later = [body for (n, _), body in reader.bodies.items() if n > 6]
    assert later
    assert max(map(len, later)) < refused


def test_a_request_of_which_nothing_can_be_left_out_is_not_sent_twice(
    database: Database,
) -> None:
    reader = a_reader(database, window=40_000)
    reader.process.model.script.append(refusal())
    assert reader.step() == "retry context_length, unknown tok"
    assert reader.step() == "pause context_capacity, 0 tok"
    assert len(reader.bodies) == 1


class Killed(BaseException):
    """What a killed greenlet meets: not an Exception."""


def test_a_step_that_is_lost_behind_its_summary_pays_for_no_second_one(
    database: Database,
) -> None:
    def then_killed(number: int, control: StreamControl) -> ModelTurn:
        reader.process.model.script.clear()
        reader.process.model.script.append(Killed())
        return notes(number, control)

    reader = a_reader(database, then_killed)
    with pytest.raises(Killed):
        reader.read(10)
    reader.process.model.script.clear()
    change(database, "UPDATE runs SET not_before = NULL")
    reader.read(1)
    assert (reader.summaries, len(summaries(database))) == (1, 1)
    assert "Notes number 1." in texts(reader.requests[-1].messages, AssistantMessage)
    assert violations(database) == []


def test_without_any_usage_requests_are_weighed_all_the_same(database: Database) -> None:
    reader = a_reader(database)
    for _ in range(12):
        turn = asked(("page", '{"n":1}'))
        reader.process.model.script.append(turn.model_copy(update={"usage": Usage()}))
        reader.step()
    assert reader.summaries >= 1
    assert max(map(len, reader.bodies.values())) < 4_000 * 4


def test_what_an_endpoint_counts_is_remembered_for_the_next_process(database: Database) -> None:
    reader = a_reader(database, window=40_000)
    for _ in range(4):
        turn = asked(("page", '{"n":1}'))
        last = max(map(len, reader.bodies.values()), default=0)
        usage = Usage(input_tokens=max(1, last // 2), output_tokens=1, total_tokens=9)
        reader.process.model.script.append(turn.model_copy(update={"usage": usage}))
        reader.step()
    known = reader.process.runtime.rates.of(database, "scripted")
    assert known < 3.4
    fresh = a_process(database).runtime.rates
    assert fresh.of(database, "scripted") < 3.4
    assert fresh.of(database, "another model") == 3.5


def follow_up(reader: Reader, words: str) -> None:
    """Ask for more in the reader's thread."""
    wish = RunWish(
        input=words,
        tools=reader.process.runtime.registry.select(None),
        window=4_000,
        output_reserve=400,
        profile="plain",
        thread_id=reader.run.thread_id,
    )
    reader.run = a_run(reader.database, wish)


def test_a_follow_up_goes_on_from_the_summary_of_the_run_before_it(database: Database) -> None:
    reader = a_reader(database)
    reader.read(8)
    reader.process.model.script.append(said("All is read."))
    reader.step()
    made = reader.summaries
    follow_up(reader, "And now in French?")
    reader.process.model.script.append(said("Oui."))
    assert reader.step().startswith("answer")
    first = reader.requests[-1].messages
    assert reader.summaries == made, "nothing is summarised twice"
    assert f"Notes number {made}." in texts(first, AssistantMessage)
    assert [*texts(first, UserMessage)][-1] == "And now in French?"
    assert unpaired(first[1:]) == []
    follow_up(reader, "Read on.")
    reader.read(8)
    assert reader.summaries > made
    [row, *_] = query(
        database, "SELECT * FROM summaries WHERE run_id = %(run)s ORDER BY number",
        run=reader.run.run_id,
    )  # fmt: skip
    assert (row["number"], row["previous"]) == (1, last_summary_before(database, reader))
    for asked_at in query(
        database, "SELECT run_id, step, attempt FROM model_calls WHERE manifest IS NOT NULL"
    ):
        rebuilt = rebuild_request(
            database, {"chat": reader.process.model}, asked_at["run_id"], asked_at["step"],
            asked_at["attempt"],
        )  # fmt: skip
        assert rebuilt.body in reader.bodies.values()


def last_summary_before(database: Database, reader: Reader) -> object:
    rows = query(
        database, "SELECT id FROM summaries WHERE run_id <> %(run)s ORDER BY created_at DESC",
        run=reader.run.run_id,
    )  # fmt: skip
    return rows[0]["id"]


def test_a_run_that_went_on_behind_a_later_one_is_told_anew(database: Database) -> None:
    reader = a_reader(database)
    reader.read(6)
    first = reader.run
    stop_run(database, first.run_id, OWNER)
    follow_up(reader, "Something else.")
    reader.process.model.script.append(said("Done."))
    reader.step()
    resume_run(database, first.run_id, OWNER)
    reader.run = first
    reader.process.model.script.append(said("Read, after all."))
    reader.step()
    made = reader.summaries
    follow_up(reader, "And then?")
    reader.process.model.script.append(said("Then nothing."))
    reader.step()
    assert reader.summaries == made + 1
    [_, sources] = reader.summary_requests[-1].messages
    assert isinstance(sources, UserMessage)
    assert sources.text.startswith("Earlier notes: none")


@pytest.mark.parametrize(
    "lie",
    [
        "UPDATE summaries SET first_kept_step = 1 WHERE number = 2",
        "UPDATE summaries SET previous = id WHERE number = 2",
        "UPDATE summaries SET attempt = 77 WHERE number = 1",
    ],
)
def test_summaries_that_do_not_follow_one_another_are_found(database: Database, lie: str) -> None:
    reader = a_reader(database)
    reader.read(10)
    assert violations(database) == []
    change(database, lie)
    assert "summary does not follow" in str(violations(database))
