"""Servers that one test alone may spoil."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.services import Place
from umbel.embedded import embedded_servers


@pytest.fixture
def own_redis_url() -> Iterator[str]:
    """A Valkey that nobody else uses."""
    with embedded_servers(database=False) as servers:
        yield servers.redis_url


@pytest.fixture
def own_place(place: Place, own_redis_url: str) -> Place:
    """The test's database, and a Valkey that nobody else uses."""
    return replace(place, redis_url=own_redis_url)
