"""These tests share one database, emptied after each; a process's runtime stands on it."""

from collections.abc import Callable

import pytest

from models.database import Database
from tests.emptied_database import database, make_database, shared_pool, shared_url, url
from tests.runs.private_broker import broker
from tests.tasks.process import Process, a_process

__all__ = ["broker", "database", "make_database", "shared_pool", "shared_url", "url"]


@pytest.fixture
def process(database: Database) -> Process:
    """A worker process with scripted models and a bell that writes down what it rings."""
    return a_process(database)


@pytest.fixture
def make_process(make_database: Callable[[], Database]) -> Callable[[], Process]:
    """Further worker processes on the same database."""
    return lambda: a_process(make_database())
