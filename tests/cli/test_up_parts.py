"""The parts of `umbel up` that need no running system."""

import io
import json
import os
import pty
import re
import socket
import stat
import threading
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Final, get_args

import pytest
from pydantic import SecretStr

from umbel.cli.plain_output import OutputClosed
from umbel.cli.up_flower import flower_auth
from umbel.cli.up_happenings import Addresses, Happening, ProcessLine, ProcessReady, SystemReady
from umbel.cli.up_listening import answers, refuse_taken
from umbel.cli.up_log import BoundedLog
from umbel.cli.up_screen import JsonWriter, TextWriter, UpScreen, as_facts
from umbel.errors import Misconfigured, Unavailable
from umbel.settings import load_settings

DOCUMENT: Final = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text()
TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
LOG_LINE: Final = json.dumps(
    {
        "at": "2026-01-01T12:00:00.000Z",
        "level": "INFO",
        "logger": "tasks.step",
        "process": "step@host",
        "pid": 1,
        "message": "step recorded",
        "run_id": "run_1",
        "step_no": 2,
        "fence": 3,
    }
)
ADDRESSES: Final = Addresses(
    data="/srv/umbel",
    is_default_data=False,
    log="/srv/umbel/umbel.log",
    database_url="postgresql+psycopg://umbel@/umbel?host=/srv/run&port=5432",
    redis_url="unix:///srv/run/valkey.sock",
    model="demo",
    model_base_url="http://127.0.0.1:9/v1",
    flower_url="http://127.0.0.1:5555",
    flower_user="umbel",
    flower_password_file="/srv/umbel/flower.auth",
    flower_password=SecretStr("made-once"),
    metrics_url=None,
)


def as_text(happening: Happening) -> str:
    out = io.StringIO()
    TextWriter(out).write(happening)
    return out.getvalue()


def test_a_log_line_is_shown_as_text_under_the_name_of_its_process_without_colour_in_a_pipe() -> (
    None
):
    shown = as_text(ProcessLine.of("step", LOG_LINE))
    assert shown.startswith("step     | 12:00:00  INFO     step recorded  run_id=run_1")
    assert "\x1b" not in shown


@pytest.mark.parametrize(("no_colour", "is_coloured"), [(None, True), ("1", False)])
def test_names_have_colours_on_a_terminal_unless_it_wants_none(
    no_colour: str | None, is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    if no_colour is not None:
        monkeypatch.setenv("NO_COLOR", no_colour)
    shown = on_a_terminal(ProcessLine.of("step", LOG_LINE), ProcessLine.of("tool", LOG_LINE))
    labels = [line.partition("12:00:00")[0] for line in shown.splitlines()]
    assert [("\x1b[3" in label) for label in labels] == [is_coloured, is_coloured]
    assert (labels[0].split("step")[0] != labels[1].split("tool")[0]) is is_coloured
    assert "step     | " in re.sub(r"\x1b\[[0-9;]*m", "", labels[0])


def on_a_terminal(*happenings: Happening) -> str:
    """What a pseudo-terminal is written."""
    ours, theirs = pty.openpty()
    shown = b""
    with os.fdopen(theirs, "w", encoding="utf-8") as out:
        writer = TextWriter(out)
        for happening in happenings:
            writer.write(happening)
    with os.fdopen(ours, "rb", buffering=0) as read, suppress(OSError):  # EIO: all has been read
        for piece in iter(lambda: read.read(65_536), b""):
            shown += piece
    return shown.decode()


def test_what_a_process_wrote_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in as_text(ProcessLine.of("tool", "\x1b[2Jgone"))
    assert "\x1b" not in as_text(ProcessLine.of("tool", LOG_LINE.replace("2026", "\\u001b[2J")))


def test_the_password_made_here_is_shown_to_people_and_never_written_as_json() -> None:
    assert "user umbel, password made-once" in as_text(ADDRESSES)
    assert "made-once" not in json.dumps(as_facts(ADDRESSES))


def test_the_addresses_say_how_to_enqueue() -> None:
    shown = as_text(ADDRESSES)
    assert 'umbel runs create "…" --data /srv/umbel' in shown
    assert "export UMBEL_DATABASE_URL='postgresql+psycopg://" in shown
    assert "export UMBEL_REDIS_URL=unix:///srv/run/valkey.sock" in shown


def test_an_address_without_its_password_is_said_to_be_one() -> None:
    shown = as_text(replace(ADDRESSES, database_url="postgresql+psycopg://u:***@h/d"))
    line = next(line for line in shown.splitlines() if "UMBEL_DATABASE_URL" in line)
    assert line.endswith("# with the password of your settings")
    assert shown.count("password of your settings") == 1


def test_json_holds_a_log_line_as_an_object_and_any_other_line_as_text() -> None:
    out = io.StringIO()
    writer = JsonWriter(out)
    writer.write(ProcessLine.of("step", LOG_LINE))
    writer.write(ProcessLine.of("step", "Segmentation fault"))
    logged, other = map(json.loads, out.getvalue().splitlines())
    assert (logged["type"], logged["process"]) == ("process.line", "step")
    assert (logged["log"]["message"], logged["text"]) == ("step recorded", None)
    assert (other["log"], other["text"]) == (None, "Segmentation fault")
    assert logged["at"] == logged["log"]["at"], "when the process says that it happened"


def test_every_line_of_json_says_when() -> None:
    for happening in (ADDRESSES, ProcessLine.of("tool", "x"), SystemReady(processes=1, seconds=1)):
        at = as_facts(happening)["at"]
        assert re.fullmatch(TIME, str(at)), at


def test_the_json_of_umbel_up_is_documented_field_by_field() -> None:
    section = DOCUMENT.partition("\n## umbel up\n")[2].partition("\n## ")[0]
    for happening in get_args(Happening):
        rows = [x for x in section.splitlines() if x.startswith(f"| `{happening.type}` |")]
        assert len(rows) == 1, happening.type
        hidden = {"at", "process", "flower_password"}
        for name in {field.name for field in fields(happening)} - hidden:
            assert f"`{name}`" in rows[0], (happening.type, name)


def test_an_output_that_stands_still_holds_nobody_up_and_the_end_comes_all_the_same() -> None:
    blocked, written = threading.Event(), []

    class Blocked:
        def write(self, happening: Happening) -> None:
            blocked.wait(30)
            written.append(happening)

    screen = UpScreen(Blocked(), on_closed=lambda _: None)
    for _ in range(20_000):
        screen.show(ProcessLine.of("step", "x"))
    blocked.set()
    screen.close()
    assert 0 < len(written) < 20_000


def test_an_output_that_nobody_reads_is_told_once() -> None:
    told: list[OutputClosed] = []

    class Closed:
        def write(self, happening: Happening) -> None:
            raise OutputClosed

    screen = UpScreen(Closed(), on_closed=told.append)
    for _ in range(3):
        screen.show(SystemReady(processes=1, seconds=1.0))
    screen.close()
    assert len(told) == 1


def test_the_log_keeps_the_newest_lines_in_bounded_space(tmp_path: Path) -> None:
    path = tmp_path / "umbel.log"
    with BoundedLog(path, limit_bytes=200, kept_files=2) as log:
        for number in range(100):
            log.write(ProcessLine.of("step", f"line {number}"))
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["umbel.log", "umbel.log.1", "umbel.log.2"]
    assert all(file.stat().st_size < 250 for file in tmp_path.iterdir())
    kept = "".join((tmp_path / name).read_text() for name in reversed(names))
    numbers = [int(number) for number in re.findall(r"line (\d+)", kept)]
    assert numbers == list(range(numbers[0], 100))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_closed_log_takes_lines_of_late_threads_without_a_word(tmp_path: Path) -> None:
    with BoundedLog(tmp_path / "umbel.log") as log:
        log.write(ProcessLine.of("step", "one"))
    log.write(ProcessLine.of("step", "two"))
    assert re.findall(r"one|two", (tmp_path / "umbel.log").read_text()) == ["one"]


def test_each_line_of_the_log_has_time_and_name_and_none_a_password(tmp_path: Path) -> None:
    error = {"type": "ValueError", "message": "no", "trace": "in a.py\nin b.py"}
    failed = json.dumps({**json.loads(LOG_LINE), "level": "ERROR", "error": error})
    with BoundedLog(tmp_path / "umbel.log") as log:
        for happening in (ADDRESSES, ProcessLine.of("step", failed), ProcessLine.of("beat.1", "x")):
            log.write(happening)
    text = (tmp_path / "umbel.log").read_text()
    for line in text.splitlines():
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (up|step|beat\.1) +\| .", line), (
            line
        )
    assert "2026-01-01T12:00:00.000Z step     | ERROR    step recorded  run_id=run_1" in text
    assert 'error="ValueError: no"' in text
    assert "2026-01-01T12:00:00.000Z step     |     in b.py" in text
    assert "made-once" not in text
    assert "password in /srv/umbel/flower.auth" in text


def test_a_password_for_flower_is_made_once_and_kept_for_its_user_alone(tmp_path: Path) -> None:
    settings = load_settings({})
    made, again = flower_auth(settings, tmp_path), flower_auth(settings, tmp_path)
    assert made == again
    assert made.user == "umbel"
    assert len(made.password.get_secret_value()) >= 20
    assert made.file is not None
    assert stat.S_IMODE(made.file.stat().st_mode) == 0o600
    assert "made" not in repr(made)
    assert made.password.get_secret_value() not in repr(made)


def test_the_password_of_the_settings_wins_and_is_not_kept(tmp_path: Path) -> None:
    auth = flower_auth(load_settings({"UMBEL_FLOWER_AUTH": "ann:a:b"}), tmp_path)
    assert (auth.user, auth.password.get_secret_value(), auth.file) == ("ann", "a:b", None)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_password_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "flower.auth").write_text("nonsense")
    with pytest.raises(Misconfigured, match=r"flower\.auth.*remove it"):
        flower_auth(load_settings({}), tmp_path)


def test_an_address_somebody_listens_on_is_refused_with_the_setting_to_change() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert answers(address)
        with pytest.raises(Unavailable, match=f"{address} already.*UMBEL_FLOWER_ADDRESS"):
            refuse_taken(address, "UMBEL_FLOWER_ADDRESS")
    assert not answers(address)
    refuse_taken(address, "UMBEL_FLOWER_ADDRESS")


@pytest.mark.parametrize("address", ["192.0.2.1:5555", "no-such-host.invalid:5555"])
def test_an_address_this_machine_does_not_have_is_refused(address: str) -> None:
    with pytest.raises(Misconfigured, match=f"Nobody can listen on {address}"):
        refuse_taken(address, "UMBEL_METRICS_ADDRESS")


def test_a_process_that_is_ready_says_after_how_long() -> None:
    assert "step is ready after 2.3 s" in as_text(ProcessReady(process="step", seconds=2.34))
