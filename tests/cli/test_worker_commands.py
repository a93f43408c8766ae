from pathlib import Path

from pydantic import SecretStr

from umbel.cli.worker_commands import process_specs, procfile, worker_environment
from umbel.settings import Settings, load_settings

ROOT = Path(__file__).resolve().parents[2]


def test_the_procfile_lists_what_umbel_run_starts() -> None:
    assert (ROOT / "Procfile").read_text() == procfile()


def test_every_process_is_started_with_the_concurrency_of_the_settings() -> None:
    settings = load_settings({"UMBEL_STEP_CONCURRENCY": "7", "UMBEL_TOOL_CONCURRENCY": "3"})
    commands = {spec.name: " ".join(spec.argv) for spec in process_specs(settings)}
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
