"""Ten faults, each planted in a system that is otherwise well set up, and asked of the command."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
import redis
from alembic import command

from models.migration import _config, _transaction
from tests.doctor.conftest import PASSWORD
from tests.doctor.test_machine import a_disk
from tests.doctor.test_model import endpoint
from tests.services import Place
from umbel.cli import exits
from umbel.cli.doctor.context import Context
from umbel.cli.doctor_command import doctor_command, look_around

pytestmark = pytest.mark.slow

Senses = Callable[[Context], Context]


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault: settings that carry it, or what the machine then seems to be."""

    environment: dict[str, str]
    senses: Senses = lambda context: context


Plant = Callable[[pytest.FixtureRequest, Place], Iterator[Planted]]


def wrong_password(request: pytest.FixtureRequest, _: Place) -> Iterator[Planted]:
    url: str = request.getfixturevalue("url_with_password")
    yield Planted({"UMBEL_DATABASE_URL": url.replace(PASSWORD, "wrong-and-secret")})


def old_migration(request: pytest.FixtureRequest, _: Place) -> Iterator[Planted]:
    url: str = request.getfixturevalue("empty_database_url")
    with _transaction(url) as connection:
        command.upgrade(_config(connection), "0001")
    yield Planted({"UMBEL_DATABASE_URL": url})


def eviction(_: pytest.FixtureRequest, place: Place) -> Iterator[Planted]:
    with redis.Redis.from_url(place.redis_url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", "100mb")
    yield Planted({})


def read_only_redis(_: pytest.FixtureRequest, place: Place) -> Iterator[Planted]:
    with redis.Redis.from_url(place.redis_url) as client:
        client.slaveof("127.0.0.1", 1)
    yield Planted({})


def nothing_runs(_: pytest.FixtureRequest, __: Place) -> Iterator[Planted]:
    yield Planted({})


def refused_key(_: pytest.FixtureRequest, __: Place) -> Iterator[Planted]:
    with endpoint(401, {"error": {"message": "no"}}) as url:
        yield Planted(
            {"UMBEL_MODEL_BASE_URL": url, "UMBEL_MODEL": "large", "UMBEL_API_KEY": "sk-wrong"}
        )


def full_disk(_: pytest.FixtureRequest, __: Place) -> Iterator[Planted]:
    yield Planted({}, lambda context: replace(context, statvfs=lambda _: a_disk(free=2_000)))


def clock_off(_: pytest.FixtureRequest, __: Place) -> Iterator[Planted]:
    yield Planted({}, lambda context: replace(context, clock=lambda: time.time() + 3_600))


def open_flower(_: pytest.FixtureRequest, __: Place) -> Iterator[Planted]:
    with endpoint(200, "<title>Flower</title>") as url:
        yield Planted({"UMBEL_FLOWER_ADDRESS": url.removeprefix("http://").removesuffix("/v1")})


FAULTS: Final[tuple[tuple[Plant, str, str, str], ...]] = (
    (wrong_password, "database", "password authentication failed", "Correct the user and password"),
    (old_migration, "migrations", "behind: at 0001", "Run `umbel db migrate`."),
    (eviction, "redis", "evicts by allkeys-lru", "CONFIG SET maxmemory-policy noeviction"),
    (read_only_redis, "redis", "a read-only replica of 127.0.0.1:1", "REPLICAOF NO ONE"),
    (nothing_runs, "queues", "nobody consumes umbel.loop", "worker -P gevent"),
    (nothing_runs, "beat", "none answers", "Start `celery -A umbel.server beat --pidfile=`"),
    (refused_key, "model", "refuses the key (401)", "Set OPENAI_API_KEY or UMBEL_API_KEY"),
    (full_disk, "disk", "is full", "Free space on its disk"),
    (clock_off, "clock", "s ahead of the database", "timedatectl set-ntp true"),
    (open_flower, "flower", "Flower is open", "UMBEL_FLOWER_AUTH=user:password"),
)


@pytest.mark.parametrize(
    ("plant", "part", "found", "remedy"),
    FAULTS,
    ids=[f"{plant.__name__}-{part}" for plant, part, _, _ in FAULTS],
)
def test_the_command_finds_a_planted_fault_and_names_its_remedy(
    plant: Plant,
    part: str,
    found: str,
    remedy: str,
    request: pytest.FixtureRequest,
    own_place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with contextmanager(plant)(request, own_place) as planted:
        for name, value in {**_set_up(own_place, tmp_path), **planted.environment}.items():
            monkeypatch.setenv(name, value)
        code = doctor_command(
            None,
            is_json=False,
            with_invariants=False,
            look=lambda data: planted.senses(look_around(data)),
        )
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{part} "))
    assert lines[at].split()[1] == "problem"
    assert found in lines[at]
    assert "→" in lines[at + 1]
    assert remedy in lines[at + 1]
    assert code == exits.NOT_COMPLETED
    assert "and-secret" not in "".join(lines)


def _set_up(place: Place, folder: Path) -> dict[str, str]:
    return {
        "UMBEL_CONFIG": "",
        "XDG_STATE_HOME": str(folder),
        "UMBEL_DATABASE_URL": place.database_url,
        "UMBEL_REDIS_URL": place.redis_url,
        "UMBEL_REDIS_PREFIX": place.redis_prefix,
        "UMBEL_FLOWER_ADDRESS": "off",
    }
