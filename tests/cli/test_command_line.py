import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_umbel_run import clean_environment, umbel
from umbel import __version__
from umbel.cli import exits


def test_help_teaches_with_examples_and_exit_codes(tmp_path: Path) -> None:
    shown = umbel("--help", environment={}, folder=tmp_path)
    assert shown.returncode == 0
    assert "  umbel run 'What does Umbel" in shown.stdout
    assert "umbel db migrate" in shown.stdout
    assert "130 Ctrl-C" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), "Usage: umbel run [OPTIONS] REQUEST\n"),
        (("runs", "steps"), "Usage: umbel runs steps [OPTIONS] RUN\n"),
        (("runs", "steps"), "umbel runs steps run_01k9 --json"),
        (("runs", "list"), "waiting, paused"),
        (("db", "check"), "umbel db check ||"),
        (("authority", "deny"), 'umbel authority deny tenant "Incident 7'),
        (("threads", "share"), "Usage: umbel threads share [OPTIONS] THREAD USER...\n"),
    ],
)
def test_every_command_shows_names_values_and_examples(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    assert said in umbel(*arguments, "--help", environment={}, folder=tmp_path).stdout


def test_lists_of_commands_are_not_cut(tmp_path: Path) -> None:
    for group in ("runs", "db", "authority", "threads"):
        commands = umbel(group, "--help", environment={}, folder=tmp_path).stdout
        assert "..." not in commands.partition("Commands:")[2]


def test_output_that_nobody_reads_ends_the_command_without_a_word(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    shown = subprocess.run(
        [sys.executable, "-m", "umbel.cli", "run", "x"],
        env=clean_environment(),
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (shown.returncode, shown.stderr) == (exits.OUTPUT_CLOSED, "")


def test_version_is_the_packages(tmp_path: Path) -> None:
    assert umbel("--version", environment={}, folder=tmp_path).stdout == f"umbel {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rum"], "No such command 'rum'. Did you mean 'run'?"),
        (["run"], "Missing argument"),
        (["runs", "list", "--limit", "0"], "--limit"),
        (["runs", "get"], "Missing argument"),
    ],
)
def test_wrong_usage_is_two_and_says_what_is_wrong(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    shown = umbel(*arguments, environment={}, folder=tmp_path)
    assert shown.returncode == exits.USAGE
    assert said in shown.stderr
    assert shown.stdout == ""


def test_wrong_settings_are_two_with_every_fault_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "umbel.toml").write_text("pool_sise = 3")
    environment = {"UMBEL_POOL_SIZE": "many", "UMBEL_REDIS_URL": "http://x"}
    shown = umbel("runs", "list", environment=environment, folder=tmp_path)
    assert shown.returncode == exits.USAGE
    first, *faults = shown.stderr.splitlines()
    assert first == "umbel: 3 settings are wrong; nothing was started."
    assert len(faults) == 3
    assert shown.stdout == ""


def test_a_database_that_is_away_is_three_in_one_line(tmp_path: Path) -> None:
    environment = {"UMBEL_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    shown = umbel("db", "migrate", environment=environment, folder=tmp_path)
    assert shown.returncode == exits.UNAVAILABLE
    assert shown.stderr.startswith("umbel: PostgreSQL does not answer")
    assert "Traceback" not in shown.stderr


def test_starting_the_command_line_loads_neither_celery_nor_sqlalchemy() -> None:
    code = "import umbel.cli.app, sys; print({'celery', 'sqlalchemy', 'openai'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"
