import importlib
import json
import logging
import sys
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import IntegrityError

from tasks.log_format import LINE_BYTES, LineFormatter
from umbel.log_context import bound
from umbel.redaction import Redactor

CONSUMER = "celery.worker.consumer.consumer"
celery: Any = importlib.import_module(CONSUMER)  # its stubs lack the texts
KEY = "planted-key-0001"


def written(
    message: object = "run taken over",
    *args: object,
    logger: str = "scheduler.sweeper",
    error: BaseException | None = None,
    is_json: bool = True,
    **extra: object,
) -> str:
    formatter = LineFormatter(process="step@host", redact=Redactor([KEY]), is_json=is_json)
    exc_info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord(logger, logging.WARNING, __file__, 1, message, args, exc_info)
    vars(record).update(extra)
    return formatter.format(record)


def told(*args: object, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(written(*args, **more))
    return found


def raised(error: BaseException) -> BaseException:
    """The error with a frame."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - whatever it is
        raise error
    return caught.value


def test_every_line_has_run_step_and_fence_be_they_null() -> None:
    line = told()
    assert list(line)[:9] == [
        "at", "level", "logger", "process", "pid", "message", "run_id", "step_no", "fence",
    ]  # fmt: skip
    assert (line["run_id"], line["step_no"], line["fence"]) == (None, None, None)
    assert line["at"].endswith("Z")
    assert len(line["at"]) == len("2026-01-02T03:04:05.678Z")


def test_a_line_is_about_what_is_bound_and_an_extra_wins() -> None:
    with bound(run_id="run_1", step_no=2, fence=3, call_id="call_1"):
        line, other = told(seconds=0.5), told(run_id="run_9")
    assert (line["run_id"], line["step_no"], line["fence"]) == ("run_1", 2, 3)
    assert (line["call_id"], line["seconds"]) == ("call_1", 0.5)
    assert other["run_id"] == "run_9"


@pytest.mark.parametrize(
    ("task_id", "about"),
    [
        ("run_01abc:s7", {"run_id": "run_01abc", "step_no": 7}),
        ("run_01abc:s7:r2", {"run_id": "run_01abc", "step_no": 7}),
        ("call_01abc:r1", {"call_id": "call_01abc"}),
        ("run_01abc:s7\n forged", {}),
        ("somebody-else", {}),
    ],
)
def test_a_line_of_celery_is_about_the_task_that_its_record_names(
    task_id: str, about: dict[str, object]
) -> None:
    data = {"id": task_id, "name": "umbel.loop.step", "args": "planted", "kwargs": "planted"}
    line = told("Task %(name)s[%(id)s] received", data, logger="celery.worker.strategy", data=data)
    assert {k: line[k] for k in ("run_id", "step_no", "call_id") if line.get(k)} == about
    assert "planted" not in json.dumps(line)


def test_the_end_of_a_failed_task_is_told_without_the_words_of_its_error() -> None:
    data = {"id": "run_01abc:s7", "name": "s", "exc": "E('planted')", "description": "raised"}
    line = told(
        "Task %(name)s[%(id)s] %(description)s: %(exc)s",
        data,
        logger="celery.app.trace",
        data=data,
        error=ValueError("no such model"),
    )
    assert line["message"] == "Task s[run_01abc:s7] raised: ValueError"
    assert "planted" not in json.dumps(line)


@pytest.mark.parametrize(
    ("template", "count", "fact"),
    [
        (celery.MESSAGE_DECODE_ERROR, 5, "message not decodable and dropped"),
        (celery.UNKNOWN_FORMAT, 1, "message of unknown kind dropped"),
        (celery.UNKNOWN_TASK_ERROR, 4, "message for an unknown task dropped"),
        (celery.INVALID_TASK_ERROR, 2, "message invalid and dropped"),
        ("A new way to show a body: %s", 1, "message dropped"),
    ],
)
def test_of_a_message_that_celery_cannot_use_only_the_fact_is_told(
    template: str, count: int, fact: str
) -> None:
    line = told(template, *["planted"] * count, logger=CONSUMER, error=raised(KeyError("planted")))
    assert line["message"] == fact
    assert line["error"] == {"type": "KeyError", "message": "", "trace": ""}
    assert "planted" not in json.dumps(line)


def test_secrets_are_masked_in_message_arguments_extras_errors_and_their_causes() -> None:
    error = ValueError(f"refused {KEY}")
    error.__cause__ = raised(KeyError(f"for {KEY}"))
    line = written(
        f"{KEY} of %s", f"<{KEY}>", error=raised(error), detail=f"x {KEY}", api_key="anything",
        url="redis://:hunter2@h", nested={"key": KEY},
    )  # fmt: skip
    assert "planted-key" not in line
    assert "hunter2" not in line
    assert json.loads(line)["api_key"] == "***"
    assert json.loads(line)["error"]["message"] == "refused ***"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    step: int


def _validation_error() -> Exception:
    try:
        _Strict.model_validate({"step": "planted words"})
    except ValueError as error:
        return error
    raise AssertionError("it was accepted")


@pytest.mark.parametrize(
    "error",
    [
        _validation_error(),
        psycopg.errors.CheckViolation("new row violates\nDETAIL:  Failing row contains (planted)."),
        IntegrityError("INSERT", {"input": "planted"}, Exception("violates")),
    ],
)
def test_an_error_is_told_without_the_values_it_quotes(error: Exception) -> None:
    line = told("step failed", error=raised(error))
    assert "planted" not in json.dumps(line)
    assert line["error"]["type"].endswith(type(error).__name__)
    assert line["error"]["message"]


def test_a_trace_names_frames_innermost_last_and_the_cause_before() -> None:
    error = RuntimeError("second")
    error.__cause__ = raised(KeyError("first"))
    trace = told(error=raised(error))["error"]["trace"].splitlines()
    assert trace[0] == "KeyError: 'first'"
    assert [line.rpartition(" in ")[2] for line in trace[1:]] == ["raised", "raised"]


def test_an_error_that_is_its_own_cause_is_told_once() -> None:
    error = RuntimeError("round")
    error.__cause__ = error
    assert told(error=raised(error))["error"]["message"] == "round"


@pytest.mark.parametrize("text", ["x" * 1_000_000, "日" * 1_000_000, "\x00" * 1_000_000])
def test_a_line_fits_into_one_write_whatever_is_in_it(text: str) -> None:
    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        raise ValueError(text)

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the one raised here
        deep(400)
    fields: dict[str, Any] = {f"field_{n}": text for n in range(9)}
    line = written(text, error=caught.value, run_id="run_1", **fields)
    assert len(line.encode()) <= LINE_BYTES
    assert json.loads(line)["run_id"] == "run_1"
    assert json.loads(line)["error"]["type"] == "ValueError"


def test_a_line_with_wrong_arguments_is_still_a_line() -> None:
    assert told("%d of %d", "one")["message"] == "%d of %d"


def test_an_error_whose_text_cannot_be_read_is_still_told() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert told(error=Unspeakable())["error"]["message"] == "(its text could not be read)"


def test_control_characters_are_escaped_and_other_text_is_kept() -> None:
    hostile = "grün\n2026-11-29 CRITICAL approval granted\x1b[2J\r\u202e"
    for is_json in (True, False):
        line = written(hostile, is_json=is_json)
        assert not set(line) & set("\n\r\x1b\u202e")
        assert "grün" in line
    assert told(hostile)["message"] == hostile


def test_as_text_the_frames_of_an_error_stand_below_it() -> None:
    first, *frames = written(
        "step failed", is_json=False, error=raised(ValueError("no")), run_id="run_1"
    ).splitlines()
    assert first.endswith('step failed  run_id=run_1 error="ValueError: no"')
    assert [frame.strip().rpartition(" in ")[2] for frame in frames] == ["raised"]


def test_a_value_of_any_kind_can_be_a_field() -> None:
    line = told(flag=True, nothing=None, size=sys.maxsize, pair=("a", 1))
    assert (line["flag"], line["nothing"], line["pair"]) == (True, None, "('a', 1)")
