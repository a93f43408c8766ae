"""What `umbel up` refuses before it starts anything, and what it keeps for its next start."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.demo import DemoServer
from tests.cli.announcing import running_system
from umbel.cli import exits
from umbel.cli.endpoints import chosen_model
from umbel.cli.port_holder import holder_of
from umbel.cli.running_system import find_running, refuse_running, was_killed
from umbel.cli.up_command import up_command
from umbel.cli.up_demo import keep_port, kept_port
from umbel.cli.up_listening import refuse_taken
from umbel.errors import Misconfigured
from umbel.settings import load_settings


@pytest.fixture(autouse=True)
def settings_of_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("UMBEL_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("UMBEL_MODEL", "demo")


@pytest.fixture
def taken() -> Iterator[str]:
    """An address that this process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_second_system_on_a_directory_is_refused_at_once_and_touches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_system(tmp_path) as first:
        before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
        assert up_command(tmp_path, is_json=True) == exits.USAGE
        assert find_running(tmp_path) == first
        assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    (only,) = told(capsys)
    assert only["type"] == "system.failed"
    assert f"process {os.getpid()}" in str(only["message"])
    assert f"kill {os.getpid()}" in str(only["message"])


def test_a_directory_that_nobody_uses_is_not_refused(tmp_path: Path) -> None:
    refuse_running(tmp_path / "none")
    with running_system(tmp_path):
        pass
    refuse_running(tmp_path)
    assert not (tmp_path / "none").exists()


def test_the_note_of_an_earlier_life_is_not_taken_for_the_system_that_is_starting(
    tmp_path: Path,
) -> None:
    with running_system(tmp_path):
        (tmp_path / "owner.lock").write_text("1\n")
        assert find_running(tmp_path) is None
        assert was_killed(tmp_path)
    assert not was_killed(tmp_path)


@pytest.mark.parametrize("name", ["UMBEL_FLOWER_ADDRESS", "UMBEL_METRICS_ADDRESS"])
def test_a_taken_address_is_refused_with_its_holder_before_any_server_starts(
    name: str,
    taken: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("UMBEL_FLOWER_ADDRESS", "off")
    monkeypatch.setenv("UMBEL_METRICS_ADDRESS", "off")
    monkeypatch.setenv(name, taken)
    assert up_command(tmp_path / "data", is_json=True) == exits.UNAVAILABLE
    (only,) = told(capsys)
    assert f"{taken} already: process {os.getpid()} (" in str(only["message"])
    assert f"set {name}" in str(only["message"])
    assert not (tmp_path / "data").exists()


def test_nobody_is_named_for_a_port_that_is_free(taken: str) -> None:
    port = int(taken.rpartition(":")[2])
    assert holder_of(port) is not None
    with socket.create_server(("127.0.0.1", 0)) as other:
        free = other.getsockname()[1]
    assert holder_of(free) is None


def test_what_a_killed_system_left_has_time_to_end() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    ending = threading.Timer(0.3, server.close)
    ending.start()
    address = f"127.0.0.1:{server.getsockname()[1]}"
    refuse_taken(address, "UMBEL_FLOWER_ADDRESS", patience_seconds=60)
    ending.join()


def test_the_demo_has_the_same_address_at_the_next_start(tmp_path: Path) -> None:
    addresses = []
    for _ in range(2):
        port = kept_port(tmp_path)
        with chosen_model(load_settings({}), "demo", demo_port=port) as model:
            keep_port(tmp_path, model)
            addresses.append(model.base_url)
    assert addresses[0] == addresses[1]


def test_a_demo_whose_port_is_taken_gets_another_one(taken: str) -> None:
    with DemoServer(port=int(taken.rpartition(":")[2])) as demo:
        assert taken not in demo.base_url


@pytest.mark.parametrize("text", ["", "nonsense", "70000", "-1"])
def test_a_damaged_port_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "demo.port").write_text(text)
    assert kept_port(tmp_path) == 0


def test_the_port_of_a_model_that_is_no_demo_is_not_kept(tmp_path: Path) -> None:
    settings = load_settings({"UMBEL_MODEL_BASE_URL": "http://127.0.0.1:1/v1"})
    with chosen_model(settings, "gpt-x", demo_port=0) as model:
        keep_port(tmp_path, model)
    assert list(tmp_path.iterdir()) == []


def test_a_kept_text_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("5")
    (tmp_path / "demo.port").symlink_to(tmp_path / "elsewhere")
    assert kept_port(tmp_path) == 0


def test_a_wrong_setting_is_said_when_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UMBEL_FLOWER_ADDRESS", "192.0.2.1:5555")
    assert up_command(tmp_path / "data", is_json=True) == exits.USAGE
    with pytest.raises(Misconfigured):
        refuse_taken("192.0.2.1:5555", "UMBEL_FLOWER_ADDRESS")
