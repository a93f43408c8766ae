"""One migrated database for many tests, emptied after each: copying one for every test is slow.

Import the fixtures into a folder's conftest. A test that changes the tables themselves, or starts
processes, takes the `place` of its own instead.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from models.database import Database, Statement
from models.tables import metadata
from tests.services import Services

_EMPTY: list[Statement] = [
    (f"DELETE FROM {table.name}", {}) for table in reversed(metadata.sorted_tables)
]


@pytest.fixture(scope="session")
def shared_url(services: Services) -> Iterator[str]:
    """The database that the tests of this folder use one after the other."""
    url = services.databases.create()
    yield url
    services.databases.drop(url)


@pytest.fixture(scope="session")
def shared_pool(shared_url: str) -> Iterator[Database]:
    """A pool over it that lives as long."""
    pool = Database(shared_url, role="test", pool_size=8)
    yield pool
    pool.close()


@pytest.fixture
def url(shared_url: str, shared_pool: Database) -> Iterator[str]:
    """The URL of an empty, migrated database."""
    yield shared_url
    shared_pool.run(*_EMPTY)


@pytest.fixture
def database(url: str, shared_pool: Database) -> Database:
    """A pool over the empty database, as one process would have it."""
    return shared_pool


@pytest.fixture
def make_database(url: str) -> Iterator[Callable[[], Database]]:
    """Further pools over the same database: each stands for another process."""
    with ExitStack() as stack:

        def make() -> Database:
            pool = Database(url, role="test", pool_size=2)
            stack.callback(pool.close)
            return pool

        yield make
