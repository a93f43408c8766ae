"""Commands called as functions: the settings name one database, emptied after each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.emptied_database import database, shared_pool, shared_url, url
from tests.factories import OWNER
from tests.services import Place, Services

__all__ = ["database", "own_settings", "place", "shared_pool", "shared_url", "url"]


@pytest.fixture
def place(services: Services, url: str) -> Iterator[Place]:
    """The emptied database, and a Redis key prefix that only this test uses."""
    prefix = services.keys.new_prefix()
    yield Place(url, services.redis_url, prefix)
    services.keys.wipe(prefix)


@pytest.fixture
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: Place) -> None:
    """The settings name this test's own servers and the owner of `a_run`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UMBEL_DATABASE_URL", place.database_url)
    monkeypatch.setenv("UMBEL_REDIS_URL", place.redis_url)
    monkeypatch.setenv("UMBEL_REDIS_PREFIX", place.redis_prefix)
    monkeypatch.setenv("UMBEL_TENANT", OWNER.tenant)
    monkeypatch.setenv("UMBEL_USER", OWNER.user)
