"""What is peculiar in Celery's own log records: whose they are, and what they must not tell.

Measured on Celery 5.7.0: a message that it cannot use is logged with its whole body.
"""

import logging
import re
from collections.abc import Mapping
from typing import Final, cast

from umbel.log_context import About
from umbel.names import CALL, STEP

_CONSUMER: Final = "celery.worker.consumer.consumer"
_REFUSED: Final = {
    "Can't decode": "message not decodable and dropped",
    "Received and deleted unknown": "message of unknown kind dropped",
    "Received unregistered task": "message for an unknown task dropped",
    "Received invalid task": "message invalid and dropped",
}
_ANY_REFUSAL: Final = "message dropped"
_RUN_ID: Final = re.compile(r"run_[0-9A-Za-z]{1,40}")
_CALL_ID: Final = re.compile(r"call_[0-9A-Za-z]{1,40}")
_STEP_TASK: Final = re.compile(rf"({_RUN_ID.pattern}):s([0-9]{{1,9}})(?::r[0-9]+)?")
_CALL_TASK: Final = re.compile(rf"({_CALL_ID.pattern})(?::r[0-9]+)?")


def refusal(record: logging.LogRecord) -> str | None:
    """The fact alone, where the record tells of a message that Celery could not use.

    Its own text quotes the body, its arguments the headers, and its exception what did not parse.
    """
    template = str(record.msg)
    if record.name != _CONSUMER or "body" not in template:
        return None
    return next(
        (fact for start, fact in _REFUSED.items() if template.startswith(start)), _ANY_REFUSAL
    )


def text_of(record: logging.LogRecord) -> str | None:
    """The record's text without the exception's own words; None if it is not of a task's end."""
    told = _told_of_task(record)
    if told is None or "exc" not in told:
        return None
    kind = record.exc_info[0] if record.exc_info else None
    return str(record.msg) % {**told, "exc": kind.__name__ if kind else "an error"}


def about_record(record: logging.LogRecord) -> About:
    """Run, step and call by the id of the task that the record is about, as far as it tells."""
    told = _told_of_task(record)
    return about_task_id(str(told.get("id"))) if told is not None else {}


def about_task_id(task_id: str) -> About:
    """What a Celery id of ours names; nothing for somebody else's."""
    if step := _STEP_TASK.fullmatch(task_id):
        return {"run_id": step[1], "step_no": int(step[2])}
    if call := _CALL_TASK.fullmatch(task_id):
        return {"call_id": call[1]}
    return {}


def about_arguments(name: str, arguments: object) -> About:
    """What a task of ours was asked to work on; nothing when the arguments are not its own."""
    match arguments:
        case [str(run_id), int(step)] if name == STEP and _RUN_ID.fullmatch(run_id):
            return {"run_id": run_id, "step_no": step}
        case [str(call_id)] if name == CALL and _CALL_ID.fullmatch(call_id):
            return {"call_id": call_id}
        case _:
            return {}


def _told_of_task(record: logging.LogRecord) -> Mapping[str, object] | None:
    """What Celery gives to log handlers with a line about a task."""
    found: object = getattr(record, "data", None)
    if not record.name.startswith("celery.") or not isinstance(found, dict):
        return None
    return cast("dict[str, object]", found)  # its keys are names
