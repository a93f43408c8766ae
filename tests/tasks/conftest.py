"""These tests share one database, emptied after each; a process's runtime stands on it."""

from collections.abc import Callable, Iterator

import pytest

from models.database import Database
from tests.emptied_database import database, make_database, shared_pool, shared_url, url
from tests.runs.private_broker import broker
from tests.tasks.process import Process, a_process
from umbel.log_context import afresh

__all__ = ["broker", "database", "make_database", "shared_pool", "shared_url", "url"]


@pytest.fixture(autouse=True)
def _own_log_context() -> Iterator[None]:
    """In a worker every task has one of its own."""
    with afresh():
        yield


@pytest.fixture
def process(database: Database) -> Process:
    """A worker process with scripted models and a bell that writes down what it rings."""
    return a_process(database)


@pytest.fixture
def make_process(make_database: Callable[[], Database]) -> Callable[[], Process]:
    """Further worker processes on the same database."""
    return lambda: a_process(make_database())
