from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import create_engine, make_url, text

from models.migration import _config, _transaction
from tests.doctor.conftest import PASSWORD
from tests.doctor.looking import look_at, look_at_all, settings_of
from tests.services import Place
from umbel.cli.doctor.database_checks import connections_wanted
from umbel.settings import Settings


@pytest.fixture
def changed_default(database_url: str) -> str:
    """The name of this test's database, to be altered."""
    return str(make_url(database_url).database)


def alter(database_url: str, change: str) -> None:
    engine = create_engine(database_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(change))
    engine.dispose()


def test_a_database_that_is_well_is_named_with_version_and_latency(place: Place) -> None:
    found = look_at_all(("database", "migrations"), settings_of(place, tool_concurrency=8))
    assert [finding.state for finding in found.values()] == ["ok", "ok"], found
    assert found["database"].found.startswith("PostgreSQL 1")
    assert float(str(found["database"].facts["latency_ms"])) > 0


def test_a_wrong_password_is_told_from_a_database_that_is_away(
    place: Place, url_with_password: str
) -> None:
    right = look_at("database", settings_of(replace(place, database_url=url_with_password)))
    assert right.state in ("ok", "warning")
    wrong_url = url_with_password.replace(PASSWORD, "wrong-and-secret")
    wrong = look_at("database", settings_of(replace(place, database_url=wrong_url)))
    assert wrong.state == "problem"
    assert "password authentication failed" in wrong.found
    assert wrong.remedy == "Correct the user and password in UMBEL_DATABASE_URL."
    assert "secret" not in wrong.found


def test_a_database_that_is_away_has_another_remedy_and_skips_what_needs_it(place: Place) -> None:
    away = replace(place, database_url="postgresql://ann:hunter2secret@127.0.0.1:1/umbel")
    found = look_at_all(("database", "work"), settings_of(away))
    assert "does not answer" in found["database"].found
    assert found["database"].remedy == (
        "Start PostgreSQL, or correct host and port in UMBEL_DATABASE_URL."
    )
    assert found["work"].state == "skipped"
    assert found["work"].found == "depends on database"
    assert "hunter2secret" not in repr(found)


def test_an_old_migration_names_the_command(place: Place, empty_database_url: str) -> None:
    with _transaction(empty_database_url) as connection:
        command.upgrade(_config(connection), "0001")
    found = look_at_all(("work",), settings_of(replace(place, database_url=empty_database_url)))
    assert found["migrations"].state == "problem"
    assert found["migrations"].found.startswith("behind: at 0001")
    assert found["migrations"].remedy == "Run `umbel db migrate`."
    assert found["work"].found == "depends on migrations"


def test_an_empty_database_names_the_command_too(place: Place, empty_database_url: str) -> None:
    finding = look_at("migrations", settings_of(replace(place, database_url=empty_database_url)))
    assert "no tables of Umbel" in finding.found
    assert finding.remedy == "Run `umbel db migrate`."


def test_tables_that_were_changed_by_hand_are_named(place: Place) -> None:
    alter(place.database_url, "ALTER TABLE runs DROP CONSTRAINT runs_counters")
    finding = look_at("migrations", settings_of(place))
    assert finding.state == "problem"
    assert "but different: " in finding.found
    assert "add check runs runs_counters" in finding.facts["differences"]  # type: ignore[operator]
    assert "umbel db check" in str(finding.remedy)


@pytest.mark.parametrize(
    ("setting", "found", "remedy"),
    [
        ("default_transaction_read_only = on", "read-only by default", "RESET default_transaction"),
        ("synchronous_commit = off", "may be lost in a crash", "synchronous_commit to on"),
    ],
)
def test_a_database_that_cannot_keep_the_promise_is_a_problem(
    place: Place, changed_default: str, setting: str, found: str, remedy: str
) -> None:
    alter(place.database_url, f'ALTER DATABASE "{changed_default}" SET {setting}')
    finding = look_at("database", settings_of(place))
    assert finding.state == "problem"
    assert found in finding.found
    assert remedy in str(finding.remedy)


def test_more_workers_than_connections_are_said_before_they_fail(place: Place) -> None:
    settings = settings_of(place, tool_concurrency=500, pool_size=20)
    finding = look_at("database", settings)
    assert finding.state == "warning"
    assert f"{connections_wanted(settings)} connections" in finding.found
    assert "Set max_connections to" in str(finding.remedy)


def test_a_pool_of_one_counts_one_connection_per_child() -> None:
    settings = Settings(pool_size=1, tool_concurrency=3, control_concurrency=2)
    assert connections_wanted(settings) == (3 + 1) + (3 + 3) + (3 + 2) + 2 * 2


def test_the_documented_number_of_connections_is_the_one_that_is_counted() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()
    settings = Settings(pool_size=10, tool_concurrency=8, control_concurrency=2)
    assert f"Compose as it is: {connections_wanted(settings)} of the default 100" in page
