"""Fixtures: servers for the session, a database and a key prefix of its own for every test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from models.database import Database
from tests.services import Place, Services, fresh_place, running_services


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    """PostgreSQL and Redis or Valkey, started once."""
    with running_services() as running:
        yield running


@pytest.fixture
def place(services: Services) -> Iterator[Place]:
    """A migrated database and a Redis key prefix that only this test uses."""
    with fresh_place(services) as fresh:
        yield fresh


@pytest.fixture
def database_url(place: Place) -> str:
    """The URL of this test's own migrated database."""
    return place.database_url


@pytest.fixture
def empty_database_url(services: Services) -> Iterator[str]:
    """The URL of a database without any table."""
    url = services.databases.create_empty()
    yield url
    services.databases.drop(url)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A pool over this test's own database, as one process would have it."""
    pool = Database(database_url, role="test", pool_size=8)
    yield pool
    pool.close()


@pytest.fixture
def make_database(database_url: str) -> Iterator[Callable[[], Database]]:
    """Further pools over the same database: each stands for another process."""
    with ExitStack() as stack:

        def make() -> Database:
            pool = Database(database_url, role="test", pool_size=2)
            stack.callback(pool.close)
            return pool

        yield make


@pytest.fixture
def redis_url(place: Place) -> str:
    """The Redis of this test; use only keys that begin with `redis_prefix`."""
    return place.redis_url


@pytest.fixture
def redis_prefix(place: Place) -> str:
    """The beginning of every key this test may write."""
    return place.redis_prefix
