"""`umbel runs context`: the bytes that a step sent, at any later time."""

import json

import pytest

from loop.request import ModelRequest
from loop.response import Failure, ModelTurn
from models.database import Database
from providers.chat import ChatProvider
from providers.contract import Endpoint, RequestForm, StreamControl
from tests.factories import RunWish, a_run, a_tool
from tests.models.story import change, query, run_row
from tests.tasks.process import Process, ScriptedModel, a_process, asked, said
from umbel.cli import exits
from umbel.cli.runs_commands import get_command
from umbel.cli.runs_context import context_command
from umbel.contracts import RunId
from umbel.errors import InvariantBroken, NotFound

pytestmark = pytest.mark.usefixtures("own_settings")

LOOK = a_tool("look", lambda n: "seen " * 500)


class WritingModel(ScriptedModel):
    """Writes its requests as a real endpoint's adapter does, and keeps what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self._writer = ChatProvider(Endpoint("https://api.mistral.ai/v1", api_key=""))

    def form(self) -> RequestForm:
        return self._writer.form()

    def render(self, request: ModelRequest, form: RequestForm) -> bytes:
        return self._writer.render(request, form)

    def stream(self, request: ModelRequest, body: bytes, control: StreamControl) -> ModelTurn:
        self.sent.append(body)
        return super().stream(request, body, control)


def a_writing_process(database: Database) -> tuple[Process, WritingModel]:
    process, model = a_process(database, LOOK), WritingModel()
    runtime = process.runtime
    object.__setattr__(runtime, "providers", {"chat": model})
    process.model = model
    return process, model


def carried(database: Database, window: int = 100_000) -> tuple[RunId, WritingModel]:
    """A run of five steps; its third was asked twice."""
    process, model = a_writing_process(database)
    wish = RunWish(tools=(LOOK,), profile="plain", window=window, output_reserve=200)
    run_id = a_run(database, wish).run_id
    failure = Failure(error_class="server", is_retryable=True, retry_after_seconds=0.0)
    model.script.extend([asked(("look", '{"n":1}')), asked(("look", '{"n":2}'))])
    model.script.extend([ModelTurn(failure=failure), asked(("look", '{"n":3}'))])
    model.script.extend([said("Notes.") if window < 10_000 else said("All is seen.")] * 9)
    while run_row(database, run_id)["status"] != "completed":
        change(database, "UPDATE runs SET not_before = NULL")
        process.step(run_id, run_row(database, run_id)["step"])
        for call_id in list(process.bell.calls):
            process.bell.calls.remove(call_id)
            process.call(call_id)
    return run_id, model


def test_the_bytes_of_a_step_are_written_and_nothing_else(
    database: Database, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run_id, model = carried(database)
    shown = []
    for step, attempt in ((1, None), (2, None), (3, 1), (3, None), (4, None)):
        assert context_command(run_id, step, attempt, None, is_json=False) == exits.COMPLETED
        shown.append(capsysbinary.readouterr().out)
    assert shown == model.sent


def test_what_a_request_was_built_from_stands_beside_it_as_json(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id, model = carried(database, window=2_000)
    [made, *_] = query(database, "SELECT * FROM summaries ORDER BY number")
    context_command(run_id, made["step"], None, None, is_json=True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["left_out"]["summary"] == made["id"]
    assert facts["purpose"] == "main"
    assert json.dumps(facts["request"], separators=(",", ":")).encode() in model.sent
    context_command(run_id, made["step"], made["attempt"], None, is_json=True)
    of_summary = json.loads(capsys.readouterr().out)
    assert (of_summary["purpose"], "tools" in of_summary["request"]) == ("compact", False)
    assert of_summary["weight"]["text_bytes"] > 1_000


def test_a_step_that_has_sent_nothing_is_told_so(database: Database) -> None:
    run_id, _ = carried(database)
    with pytest.raises(NotFound, match=r"Step 9 of .* has sent nothing"):
        context_command(run_id, 9, None, None, is_json=False)
    with pytest.raises(NotFound, match="no recorded attempt 7"):
        context_command(run_id, 1, 7, None, is_json=False)


def test_a_record_that_gives_other_bytes_is_told_so(database: Database) -> None:
    run_id, _ = carried(database)
    change(database, "UPDATE entries SET text = 'Another request.'")
    with pytest.raises(InvariantBroken, match="cannot be rebuilt"):
        context_command(run_id, 1, None, None, is_json=False)


def test_a_run_of_another_tenant_is_not_found(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, _ = carried(database)
    monkeypatch.setenv("UMBEL_TENANT", "other")
    with pytest.raises(NotFound, match="no run"):
        context_command(run_id, 1, None, None, is_json=False)


def test_the_story_tells_what_gave_way_to_a_summary(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id, _ = carried(database, window=2_000)
    [made, *_] = query(database, "SELECT * FROM summaries ORDER BY number")
    get_command(run_id, None, is_json=False)
    words = f"steps before {made['first_kept_step']} give way to a summary (model call"
    assert words in " ".join(capsys.readouterr().out.split())
