import json

import pytest

from umbel.cli.worker_health import WorkerHealth
from umbel.errors import Unavailable
from umbel.server_processes import EndedProcess


def a_line(message: str, *, level: str = "INFO", logger: str = "celery.apps.worker") -> str:
    return json.dumps(
        {
            "at": "2026-01-01T00:00:00.000Z", "level": level, "logger": logger,
            "process": "step@host", "pid": 1, "message": message,
            "run_id": None, "step_no": None, "fence": None,
        }
    )  # fmt: skip


def test_a_process_is_told_ready_once_in_the_words_of_celery() -> None:
    health = WorkerHealth()
    health.take_line("step", a_line("Connected to redis://x", logger="celery.worker.consumer"))
    assert health.newly_ready() == []
    health.take_line("step", a_line("step@host ready."))
    health.take_line("beat", a_line("beat: Starting...", logger="celery.beat"))
    assert health.newly_ready() == ["step", "beat"]
    health.take_line("step", a_line("step@host ready."))
    assert health.newly_ready() == []


def test_only_the_worker_itself_can_say_that_it_is_ready() -> None:
    health = WorkerHealth()
    health.take_line("step", a_line("the model wrote: step@host ready.", logger="providers.chat"))
    health.take_line("step", "step@host ready.")
    assert health.newly_ready() == []


def test_a_line_about_an_error_becomes_a_remark_and_one_that_quotes_the_word_does_not() -> None:
    health = WorkerHealth()
    health.take_line("tool", a_line("the word ERROR is quoted"))
    health.take_line("tool", a_line("outcome not storable", level="ERROR"))
    assert health.remarks() == ["tool worker: 00:00:00.000Z ERROR    outcome not storable"]
    assert health.remarks() == []


def test_of_many_errors_only_the_first_few_are_remarked() -> None:
    health = WorkerHealth()
    for _ in range(20):
        health.take_line("tool", a_line("step failed", level="CRITICAL"))
    assert len(health.remarks()) == 5


def test_an_ended_process_is_reported_with_its_last_lines_in_readable_form() -> None:
    health = WorkerHealth()
    health.check()
    health.take_line("step", a_line("worker could not start", level="CRITICAL"))
    health.take_line("step", "umbel: \x1b[2Jno database")
    health.note_end(EndedProcess("step", 2))
    with pytest.raises(Unavailable) as raised:
        health.check()
    assert "CRITICAL worker could not start" in str(raised.value)
    assert "umbel: \\x1b[2Jno database" in str(raised.value)
