import subprocess
from pathlib import Path

import pytest
from pydantic import SecretStr

from umbel.cli.worker_commands import (
    process_specs,
    procfile,
    system_specs,
    worker_environment,
)
from umbel.settings import Settings, load_settings

ROOT = Path(__file__).resolve().parents[2]


def test_the_procfile_lists_every_command_of_a_system() -> None:
    text = (ROOT / "Procfile").read_text()
    assert text == procfile()
    names = [line.partition(":")[0] for line in text.splitlines()]
    assert names == ["step", "tool", "control", "beat", "flower"]


def test_a_system_has_a_control_worker_two_beats_under_names_of_their_own_and_flower() -> None:
    settings = load_settings({"UMBEL_CONTROL_CONCURRENCY": "3"})
    commands = {spec.name: " ".join(spec.argv) for spec in system_specs(settings, Path("/"))}
    assert list(commands) == ["step", "tool", "control", "beat.1", "beat.2", "flower"]
    queues = "umbel.control,umbel.loop.suspect"
    assert f"-P prefork -c 3 -Q {queues} -n control@%h" in commands["control"]
    assert commands["beat.1"].endswith("-n beat.1@%h")
    assert commands["beat.2"].endswith("-n beat.2@%h")
    assert commands["flower"].endswith("-m umbel.cli flower")


def test_workers_of_a_system_leave_the_warning_about_root_to_whoever_starts_them() -> None:
    step = system_specs(load_settings({}), Path("/"))[0].argv
    options = step[1 : step.index("-m")]
    code = (
        "import warnings; from celery.platforms import ROOT_DISCOURAGED, SecurityWarning as S; "
        "warnings.warn(S(ROOT_DISCOURAGED)); warnings.warn(S('another one'))"
    )
    said = subprocess.run(
        [step[0], *options, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stderr
    assert "another one" in said
    assert "superuser" not in said


def test_a_system_without_an_address_for_flower_starts_none() -> None:
    specs = system_specs(load_settings({"UMBEL_FLOWER_ADDRESS": "off"}), Path("/"))
    assert [spec.name for spec in specs] == ["step", "tool", "control", "beat.1", "beat.2"]


def test_every_process_is_started_with_the_concurrency_of_the_settings() -> None:
    settings = load_settings({"UMBEL_STEP_CONCURRENCY": "7", "UMBEL_TOOL_CONCURRENCY": "3"})
    commands = {spec.name: " ".join(spec.argv) for spec in process_specs(settings, Path("/"))}
    assert list(commands) == ["step", "tool", "beat"]
    assert "-P gevent -c 7 -Q umbel.loop" in commands["step"]
    assert "-P prefork -c 3 -Q umbel.tools" in commands["tool"]
    assert commands["beat"].endswith("beat --pidfile= --loglevel INFO")


def test_workers_get_exactly_the_settings_of_the_command() -> None:
    settings = Settings(
        database_url="postgresql://h/d",
        api_key=SecretStr("ours"),
        tools=("a", "b"),
        beat_seconds=2.0,
    )
    inherited = {
        "PATH": "/bin",
        "OPENAI_API_KEY": "theirs",
        "UMBEL_MODEL": "of the shell",
        "UMBEL_CONFIG": "acme.toml",
        "UMBEL_TEST_BUILD": "1",
    }
    environment = worker_environment(settings, inherited)
    assert environment == {
        "PATH": "/bin",
        "UMBEL_CONFIG": "acme.toml",
        "UMBEL_TEST_BUILD": "1",
        "UMBEL_DATABASE_URL": "postgresql+psycopg://h/d",
        "UMBEL_API_KEY": "ours",
        "UMBEL_TOOLS": "a,b",
        "UMBEL_BEAT_SECONDS": "2.0",
        "PYTHONUNBUFFERED": "1",
    }
    assert load_settings(environment | {"UMBEL_CONFIG": ""}).tools == ("a", "b")


def test_workers_start_in_a_private_folder_and_import_nothing_from_here(tmp_path: Path) -> None:
    specs = process_specs(load_settings({}), tmp_path)
    assert {spec.cwd for spec in specs} == {tmp_path}
    assert {spec.argv[1] for spec in specs} == {"-P"}
    assert {spec.env["TMPDIR"] for spec in specs} == {str(tmp_path)}


def test_only_who_carries_steps_gets_the_key_of_the_model_and_only_flower_its_password(
    tmp_path: Path,
) -> None:
    settings = load_settings({"UMBEL_API_KEY": "key", "UMBEL_FLOWER_AUTH": "ann:secret"})
    specs = system_specs(settings, tmp_path)
    assert [spec.name for spec in specs if "key" in spec.env.values()] == ["step", "control"]
    assert [spec.name for spec in specs if "ann:secret" in spec.env.values()] == ["flower"]


def test_what_depends_on_the_folder_of_the_command_is_made_independent_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "umbel.toml").write_text("")
    environment = worker_environment(load_settings({}), {"PYTHONPATH": ".:lib"})
    assert environment["PYTHONPATH"] == f"{tmp_path}:{tmp_path / 'lib'}"
    assert environment["UMBEL_CONFIG"] == str(tmp_path / "umbel.toml")
