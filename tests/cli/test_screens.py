import io
import json
from dataclasses import replace

import pytest

from umbel.cli.json_screen import JsonScreen
from umbel.cli.moments import (
    CallAsked,
    CallSettled,
    ModelText,
    Moment,
    Progress,
    RunAccepted,
    RunNoted,
    RunSettled,
    StepDecided,
    StepRetried,
    StepStarted,
    Stopped,
)
from umbel.cli.present import Present
from umbel.cli.spending import Spending
from umbel.cli.text_screen import TextScreen

SPENDING = Spending(
    model_calls=1,
    input_tokens=10,
    output_tokens=5,
    unreported_calls=0,
    unpriced_calls=1,
    is_estimated=False,
    cost_usd=None,
)
ASKED = CallAsked(
    call_id="call_1",
    step=1,
    position=1,
    tool="write_file",
    effect="mutation",
    arguments='{"path":"a"}',
)
RETURNED = CallSettled(
    call_id="call_1",
    step=1,
    position=1,
    tool="write_file",
    effect="mutation",
    state="returned",
    result='{"bytes":3}',
    result_chars=11,
    receipt="done",
    seconds=0.25,
)


def settled(status: str, reason: str | None = None, answer: str | None = None) -> RunSettled:
    return RunSettled(
        run_id="run_1",
        model="m",
        status=status,
        reason=reason,
        detail="what happened" if reason else None,
        answer=answer,
        steps=1,
        calls=1,
        spending=SPENDING,
        seconds=2.0,
        look="umbel runs get run_1",
    )


EVERY_MOMENT: list[Moment] = [
    Progress(topic="servers", text="starting"),
    RunAccepted(
        run_id="run_1",
        thread_id="thr_1",
        agent="default",
        model="m",
        input="do it",
        workspace="/w",
    ),
    StepStarted(step=1, claim=1, worker="wrk_1"),
    ModelText(step=1, attempt=1, kind="text", text="I look"),
    StepDecided(
        step=1,
        attempt=1,
        decision="dispatch",
        text="I look at it.",
        model="m",
        input_tokens=1,
        output_tokens=None,
        total_tokens=None,
        seconds=0.1,
    ),
    ASKED,
    RETURNED,
    StepRetried(step=1, attempt=1, cause="provider", wait_seconds=1.0, detail="rate_limit"),
    RunNoted(event="run.taken_over", detail=None),
    settled("completed", answer="It is done."),
    Stopped(message="interrupted", exit_code=130),
]


def shown(*moments: Moment) -> str:
    out = io.StringIO()
    screen = TextScreen(out, began=0.0)
    for moment in moments:
        screen.show(moment)
    screen.close()
    return out.getvalue()


def test_a_pipe_gets_plain_lines_without_any_escape_sequence() -> None:
    text = shown(*EVERY_MOMENT)
    assert "\x1b" not in text
    assert "step 1     I look at it." in text
    assert 'step 1     write_file {"path":"a"}' in text
    assert 'write_file → (11 characters, 250 ms) {"bytes":3}' in text
    assert "\nIt is done.\n" in text
    assert "cost       unknown" in text


def test_text_of_a_model_cannot_forge_lines_or_move_the_cursor() -> None:
    text = shown(
        settled("completed", answer="\x1b[2Jcompleted"),
        CallSettled(
            call_id="call_1",
            step=1,
            position=1,
            tool="look",
            effect="read",
            state="errored",
            result="no\n  9.9s completed",
            result_chars=20,
            receipt=None,
            seconds=None,
        ),
    )
    assert "\x1b" not in text
    assert "\\x1b[2Jcompleted" in text
    assert "look failed (20 characters) no 9.9s completed" in text


def test_an_answer_is_printed_once() -> None:
    text = shown(
        StepStarted(step=1, claim=1, worker="w"),
        ModelText(step=1, attempt=1, kind="text", text="The answer.\nIn two lines."),
        StepDecided(
            step=1,
            attempt=1,
            decision="answer",
            text="The answer.\nIn two lines.",
            model=None,
            input_tokens=None,
            output_tokens=None,
            total_tokens=None,
            seconds=None,
        ),
        settled("completed", answer="The answer.\nIn two lines."),
    )
    assert text.count("The answer.") == 1


@pytest.mark.parametrize(
    "reason",
    [
        "unknown_outcome",
        "credentials",
        "access_withdrawn",
        "contract_mismatch",
        "provider_error",
        "approval_required",
    ],
)
def test_a_paused_run_says_why_and_what_to_do(reason: str) -> None:
    text = shown(settled("paused", reason=reason))
    assert f"paused     {reason}" in text
    assert "because    what happened" in text
    assert "to do      " in text


def test_an_unknown_change_is_not_called_a_failure() -> None:
    unknown = CallSettled(
        call_id="call_1",
        step=1,
        position=1,
        tool="pay",
        effect="mutation",
        state="unknown",
        result=None,
        result_chars=None,
        receipt="unknown",
        seconds=None,
    )
    text = shown(unknown)
    assert "pay: nobody knows whether this change happened" in text
    assert "failed" not in text


def test_json_is_one_object_a_line_with_a_type_and_every_field() -> None:
    out = io.StringIO()
    screen = JsonScreen(out)
    for moment in EVERY_MOMENT:
        screen.show(moment)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["type"] for line in lines] == [moment.type for moment in EVERY_MOMENT]
    assert lines[5] == {
        "type": "call.asked",
        "call_id": "call_1",
        "step": 1,
        "position": 1,
        "tool": "write_file",
        "effect": "mutation",
        "arguments": '{"path":"a"}',
    }
    assert lines[9]["spending"]["cost_usd"] is None


def test_an_endpoint_that_is_away_is_named_with_its_variable() -> None:
    away = replace(
        settled("paused", "provider_error"),
        detail="unreachable: ConnectError: refused",
        endpoint="http://127.0.0.1:1/v1",
    )
    text = shown(away)
    assert "could be reached at http://127.0.0.1:1/v1" in text
    assert "UMBEL_MODEL_BASE_URL" in text
    refused = shown(settled("paused", "provider_error"))
    assert "Correct what the endpoint complains about" in refused


def test_a_worker_that_is_ready_late_does_not_hide_what_the_step_does() -> None:
    present = Present()
    present.take(StepStarted(step=1, claim=1, worker="wrk_1"))
    present.take(Progress(topic="workers", text="tool is ready"))
    assert present.doing == "waiting for the model"
    present.take(Progress(topic="stopping", text="workers"))
    assert present.doing == "stopping"


def test_half_a_character_is_still_valid_json() -> None:
    out = io.StringIO()
    JsonScreen(out).show(Progress(topic="note", text="half \ud83d"))
    assert json.loads(out.getvalue().encode("utf-8"))["text"] == "half \ud83d"
