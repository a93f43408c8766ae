"""Servers that one test alone may spoil."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from tests.services import Place, Services
from umbel.embedded import embedded_servers

ROLE, PASSWORD = "umbel_doctor_test", "right-and-secret"


@pytest.fixture
def own_redis_url() -> Iterator[str]:
    """A Valkey that nobody else uses."""
    with embedded_servers(database=False) as servers:
        yield servers.redis_url


@pytest.fixture
def own_place(place: Place, own_redis_url: str) -> Place:
    """The test's database, and a Valkey that nobody else uses."""
    return replace(place, redis_url=own_redis_url)


@pytest.fixture
def url_with_password(services: Services) -> Iterator[str]:
    """A database of the tests' own server that wants the password of its role."""
    server = make_url(services.databases.server_url)
    folder = str(server.query.get("host", ""))
    if not folder.startswith("/"):
        pytest.skip("only the tests' own server may get another pg_hba.conf")
    with psycopg.connect(
        host=folder, port=int(str(server.query["port"])), user="postgres", autocommit=True
    ) as admin:
        admin.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
        hba = Path(str(admin.execute("SHOW hba_file").fetchone()[0]))  # type: ignore[index]  # SHOW gives a row
        before = hba.read_text()
        hba.write_text(f"local all {ROLE} scram-sha-256\n{before}")
        admin.execute("SELECT pg_reload_conf()")
        try:
            url = server.set(username=ROLE, password=PASSWORD, database="postgres")
            yield url.render_as_string(hide_password=False)
        finally:
            hba.write_text(before)
            admin.execute("SELECT pg_reload_conf()")
            admin.execute(f"DROP ROLE {ROLE}")
