import pytest
from sqlalchemy import create_engine, text

from umbel.cli.db_commands import check_command, migrate_command
from umbel.errors import Misconfigured


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, empty_database_url: str) -> str:
    monkeypatch.setenv("UMBEL_DATABASE_URL", empty_database_url)
    return empty_database_url


def test_migrate_says_what_it_did_and_then_that_nothing_is_to_do(
    empty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_command() == 1
    assert "no tables of Umbel" in capsys.readouterr().out
    assert migrate_command() == 0
    assert capsys.readouterr().out.startswith("applied 0001")
    assert migrate_command() == 0
    assert capsys.readouterr().out == "nothing to do: up to date\n"
    assert check_command() == 0
    assert capsys.readouterr().out.startswith("current: revision ")


def test_check_names_differences_and_does_not_succeed(
    empty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    migrate_command()
    engine = create_engine(empty)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE runs DROP CONSTRAINT runs_counters"))
    engine.dispose()
    capsys.readouterr()
    assert check_command() == 1
    assert "add check runs runs_counters" in capsys.readouterr().out


def test_without_a_database_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UMBEL_DATABASE_URL", raising=False)
    with pytest.raises(Misconfigured, match="UMBEL_DATABASE_URL is not set"):
        migrate_command()
