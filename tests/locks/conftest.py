"""The same suite on fakeredis and on the real server."""

import re
from collections.abc import Iterator

import fakeredis
import pytest
import redis

from locks.ownership import connect
from tests.services import Services


@pytest.fixture(params=["fake", "real"])
def client(request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """A client as the product makes it."""
    if request.param == "fake":
        yield fakeredis.FakeRedis(decode_responses=True, encoding_errors="replace")
        return
    services: Services = request.getfixturevalue("services")
    connected = connect(services.redis_url, role="test")
    yield connected
    connected.close()


@pytest.fixture
def prefix(request: pytest.FixtureRequest, client: redis.Redis) -> Iterator[str]:
    """The beginning of every key this test writes."""
    # Brackets of a parameter would be a character class in the pattern below.
    name = "umbeltest-locks-" + re.sub(r"\W", "-", request.node.name)
    yield name
    for key in list(client.scan_iter(match=f"{name}*")):
        client.delete(key)
