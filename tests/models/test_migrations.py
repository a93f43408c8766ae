from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, text

from models.migration import check, migrate, revert
from models.tables import metadata
from tests.services import Services
from umbel.errors import Misconfigured, Unavailable

# Everything that makes a table what it is, one sorted line each, from PostgreSQL's own catalog.
# Alembic's comparison does not see CHECKs, storage parameters and collations.
CATALOG = """
WITH t AS (
  SELECT c.oid, c.relname, c.reloptions FROM pg_class c
  WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
    AND c.relname <> 'alembic_version')
SELECT format('table %s %s: %s', relname, reloptions, obj_description(oid, 'pg_class')) FROM t
UNION ALL
SELECT format('column %s.%s %s collate %s null %s default %s: %s', t.relname, a.attname,
  format_type(a.atttypid, a.atttypmod), l.collname, NOT a.attnotnull,
  pg_get_expr(d.adbin, d.adrelid), col_description(t.oid, a.attnum))
FROM t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_collation l ON l.oid = a.attcollation
LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum
UNION ALL
SELECT format('constraint %s.%s %s', t.relname, c.conname, pg_get_constraintdef(c.oid))
FROM t JOIN pg_constraint c ON c.conrelid = t.oid
UNION ALL
SELECT 'index ' || pg_get_indexdef(i.indexrelid) FROM t JOIN pg_index i ON i.indrelid = t.oid
ORDER BY 1
"""


@pytest.fixture
def other_database_url(services: Services) -> Iterator[str]:
    url = services.databases.create_empty()
    yield url
    services.databases.drop(url)


def an_engine(url: str) -> Engine:
    return create_engine(url, poolclass=NullPool)


def catalog(url: str) -> list[str]:
    with an_engine(url).connect() as connection:
        return list(connection.execute(text(CATALOG)).scalars())


def tables(connection: Connection) -> set[str]:
    query = text("SELECT relname FROM pg_stat_user_tables")
    return set(connection.execute(query).scalars())


def test_all_migrations_make_exactly_the_tables_of_the_metadata(
    empty_database_url: str, other_database_url: str
) -> None:
    metadata.create_all(an_engine(other_database_url))
    migrate(empty_database_url)
    expected, actual = catalog(other_database_url), catalog(empty_database_url)
    drift = [f"  only models/*_tables.py: {line}" for line in expected if line not in actual]
    drift += [f"  only migrations/: {line}" for line in actual if line not in expected]
    assert not drift, "\n".join(["Tables and migrations differ; write a migration.", *drift])
    assert len(expected) > 100, "the catalog query finds nothing"


def test_a_migrated_database_is_current_and_has_no_differences(database_url: str) -> None:
    result = check(database_url)
    assert result.is_current
    assert result.current == result.head
    assert result.differences == ()


def test_migrating_twice_does_nothing_the_second_time(empty_database_url: str) -> None:
    first = migrate(empty_database_url)
    assert first == sorted(first)
    assert first[0] == "0001"
    assert migrate(empty_database_url) == []


def test_two_starters_at_once_apply_every_revision_once(empty_database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(migrate, [empty_database_url] * 4))
    assert sorted(map(len, applied))[:3] == [0, 0, 0]
    assert check(empty_database_url).is_current


def test_reverting_leaves_no_table_and_can_be_done_again(empty_database_url: str) -> None:
    migrate(empty_database_url)
    revert(empty_database_url)
    with an_engine(empty_database_url).connect() as connection:
        assert tables(connection) == {"alembic_version"}
    assert migrate(empty_database_url)


def test_an_empty_database_is_not_current(empty_database_url: str) -> None:
    result = check(empty_database_url)
    assert result.current is None
    assert not result.is_current


def test_check_names_what_is_missing_and_what_is_too_much(database_url: str) -> None:
    with an_engine(database_url).begin() as connection:
        connection.execute(text("ALTER TABLE runs DROP COLUMN auth_rev"))
        connection.execute(text("ALTER TABLE runs DROP CONSTRAINT runs_counters"))
        connection.execute(text("CREATE INDEX extra_ix ON runs (owner)"))
    assert set(check(database_url).differences) == {
        "add column runs auth_rev",
        "remove index extra_ix",
        "add check runs runs_counters",
    }


def test_a_database_of_a_newer_version_is_refused(database_url: str) -> None:
    with an_engine(database_url).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Misconfigured, match=r"'9999'.*Upgrade Umbel"):
        migrate(database_url)
    with pytest.raises(Misconfigured, match="Upgrade Umbel"):
        check(database_url)


def test_a_role_that_may_not_create_tables_is_told_so(empty_database_url: str) -> None:
    separator = "&" if "?" in empty_database_url else "?"
    url = f"{empty_database_url}{separator}options=-csearch_path%3Dpg_catalog"
    with pytest.raises(Misconfigured, match="right to create tables"):
        migrate(url)


def test_a_server_that_is_away_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        migrate("postgresql+psycopg://nobody@127.0.0.1:1/none")
