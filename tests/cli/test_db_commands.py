from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.cli.announcing import running_system
from umbel.cli.db_commands import check_command, migrate_command
from umbel.errors import Misconfigured


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, empty_database_url: str) -> str:
    monkeypatch.setenv("UMBEL_DATABASE_URL", empty_database_url)
    return empty_database_url


def test_migrate_says_what_it_did_and_then_that_nothing_is_to_do(
    empty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_command(None) == 1
    assert "no tables of Umbel" in capsys.readouterr().out
    assert migrate_command(None) == 0
    assert capsys.readouterr().out.startswith("applied 0001")
    assert migrate_command(None) == 0
    assert capsys.readouterr().out == "nothing to do: up to date\n"
    assert check_command(None) == 0
    assert capsys.readouterr().out.startswith("current: revision ")


def test_check_names_differences_and_does_not_succeed(
    empty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    migrate_command(None)
    engine = create_engine(empty)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE runs DROP CONSTRAINT runs_counters"))
    engine.dispose()
    capsys.readouterr()
    assert check_command(None) == 1
    assert "add check runs runs_counters" in capsys.readouterr().out


def test_without_a_database_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UMBEL_DATABASE_URL", raising=False)
    with pytest.raises(Misconfigured, match="UMBEL_DATABASE_URL is not set"):
        migrate_command(None)


@pytest.fixture
def of_a_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, empty_database_url: str
) -> Iterator[Path]:
    """The data directory of a system that runs where `umbel up` runs it unless told otherwise."""
    for name in ("UMBEL_DATABASE_URL", "UMBEL_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    data = tmp_path / "umbel" / "system"
    with running_system(data, database_url=empty_database_url):
        yield data


def test_with_nothing_set_the_system_that_runs_here_is_meant(of_a_system: Path) -> None:
    assert check_command(None) == 1
    assert migrate_command(None) == 0
    assert check_command(of_a_system) == 0


def test_a_named_directory_wins_over_the_settings(
    of_a_system: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UMBEL_DATABASE_URL", "postgresql://127.0.0.1:1/nothing")
    assert migrate_command(of_a_system) == 0
    assert capsys.readouterr().out.startswith("applied 0001")


def test_a_directory_on_which_nothing_runs_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="No system runs on"):
        migrate_command(tmp_path)
