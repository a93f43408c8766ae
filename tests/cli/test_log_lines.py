import json

import pytest

from umbel.cli.log_lines import parse, render
from umbel.log_line import LoggedError, LogLine, to_json


def a_line(message: str = "run taken over", **fields: object) -> LogLine:
    return LogLine(
        at="2026-01-02T03:04:05.678Z",
        level="WARNING",
        logger="scheduler.sweeper",
        process="beat@host",
        pid=7,
        message=message,
        fields={"run_id": None, "step_no": None, "fence": None} | fields,
    )


def test_a_log_line_reads_as_time_level_message_and_fields() -> None:
    line = to_json(a_line(run_id="run_1", step_no=3, worker="step worker"))
    assert render(line) == (
        '03:04:05.678Z WARNING  run taken over  run_id=run_1 step_no=3 worker="step worker"'
    )


def test_a_line_reads_back_as_it_was_written() -> None:
    line = a_line("mit Ümläuten 日本", run_id="run_1", seconds=0.5, is_last=True)
    assert parse(to_json(line)) == line
    assert "mit Ümläuten 日本" in to_json(line)


def test_an_error_is_shown_without_its_frames() -> None:
    line = a_line()
    broken = LogLine(
        line.at, "ERROR", line.logger, line.process, line.pid, "step failed", line.fields,
        LoggedError("ValueError", "no such model", "a.py:1 in f"),
    )  # fmt: skip
    assert render(to_json(broken)).endswith('step failed  error="ValueError: no such model"')
    assert parse(to_json(broken)) == broken


@pytest.mark.parametrize(
    "line",
    [
        "umbel: One setting is wrong; nothing was started.",
        '  File "x.py", line 3, in f',
        "{not json",
        '{"level": "ERROR"}',
        '{"at": 1, "level": "INFO", "logger": "x", "process": "y", "message": "z", "pid": 1}',
        "[1, 2]",
        "{" * 5_000,
        '{"a":' * 50_000,
        "",
    ],
)
def test_a_line_of_another_kind_is_left_alone(line: str) -> None:
    assert parse(line) is None
    assert render(line) == line


def test_no_line_can_move_the_cursor_or_forge_another_line() -> None:
    hostile = "approved\n2026-11-29 CRITICAL granted\x1b[2J\r\x9b2J\u202e\u2028"
    written = to_json(a_line(hostile, detail=hostile))
    for shown in (written, render(written), render(f"plain {hostile}")):
        assert not set(shown) & set("\n\r\x1b\x9b\u202e\u2028")
    assert json.loads(written)["message"] == hostile


def test_a_field_cannot_take_the_place_of_what_says_where_a_line_comes_from() -> None:
    told = json.loads(to_json(a_line(process="root@elsewhere", at="never")))
    assert (told["process"], told["at"]) == ("beat@host", "2026-01-02T03:04:05.678Z")


def test_half_a_character_pair_does_not_break_the_line() -> None:
    to_json(a_line("half \ud83d of one")).encode()
