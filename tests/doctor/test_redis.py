import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import redis

from tests.doctor.looking import look_at, look_at_all, settings_of
from tests.services import Place
from tests.worker_processes import wait_until
from umbel.cli.doctor.redis_check import _access, _version
from umbel.cli.doctor.redis_versions import Product, fixed_release, parse_version


def test_a_redis_that_is_well_is_named_with_product_and_latency(own_place: Place) -> None:
    finding = look_at("redis", settings_of(own_place))
    assert finding.state == "ok", finding
    assert finding.found.startswith("Valkey ")
    assert finding.facts["eviction_policy"] == "noeviction"


@pytest.mark.parametrize(("limit", "state"), [("100mb", "problem"), ("0", "warning")])
def test_an_eviction_policy_is_a_problem_once_there_is_a_limit(
    own_place: Place, limit: str, state: str
) -> None:
    with redis.Redis.from_url(own_place.redis_url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", limit)
    finding = look_at("redis", settings_of(own_place))
    assert finding.state == state
    assert "evicts by allkeys-lru" in finding.found
    assert "CONFIG SET maxmemory-policy noeviction" in str(finding.remedy)


def test_a_full_redis_is_said_in_time(own_place: Place) -> None:
    with redis.Redis.from_url(own_place.redis_url) as client:
        client.config_set("maxmemory", int(client.info()["used_memory"] * 1.1))
    finding = look_at("redis", settings_of(own_place))
    assert finding.state == "warning"
    assert "of maxmemory is used" in finding.found
    assert "Raise its maxmemory" in str(finding.remedy)


def test_a_wrong_password_is_told_from_a_redis_that_is_away(own_place: Place) -> None:
    with redis.Redis.from_url(own_place.redis_url) as client:
        client.config_set("requirepass", "right-and-secret")
    address = f"{own_place.redis_url}?password="
    right = replace(own_place, redis_url=f"{address}right-and-secret")
    assert look_at("redis", settings_of(right)).state == "ok"
    wrong = look_at("redis", settings_of(replace(own_place, redis_url=f"{address}wrong-secret")))
    assert wrong.state == "problem"
    assert wrong.remedy == "Correct the user and password in UMBEL_REDIS_URL."
    assert "wrong-secret" not in repr(wrong)
    away = look_at("redis", settings_of(replace(own_place, redis_url="redis://127.0.0.1:1/0")))
    assert "does not answer" in away.found
    assert str(away.remedy).startswith("Start it, or unset UMBEL_REDIS_URL")


def test_a_replica_names_its_primary_and_skips_the_broker(own_place: Place) -> None:
    with redis.Redis.from_url(own_place.redis_url) as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
    found = look_at_all(("redis", "broker"), settings_of(own_place))
    assert found["redis"].state == "problem"
    assert "a read-only replica of 127.0.0.1:1" in found["redis"].found
    assert "Point UMBEL_REDIS_URL at the primary (127.0.0.1:1)" in str(found["redis"].remedy)
    assert found["broker"].found == "depends on redis"


def test_a_server_that_cannot_save_may_refuse_writes(own_place: Place) -> None:
    with redis.Redis.from_url(own_place.redis_url) as client:
        shutil.rmtree(_working_directory(client))
        client.set("x", "1")
        client.bgsave()
        wait_until(
            lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", 5, "a failure"
        )
    finding = look_at("redis", settings_of(own_place))
    assert finding.state == "problem"
    assert "MISCONF" in finding.found
    assert "redis-cli BGSAVE" in str(finding.remedy)


def test_a_user_without_a_right_is_told_which_one(own_place: Place) -> None:
    with redis.Redis.from_url(own_place.redis_url) as client:
        client.acl_setuser(
            "ann", enabled=True, passwords=["+ann-secret"], keys=["*"], categories=["+@all"]
        )
        client.execute_command("ACL", "SETUSER", "ann", "-eval")
    url = f"{own_place.redis_url}?username=ann&password=ann-secret"
    finding = look_at("redis", settings_of(replace(own_place, redis_url=url)))
    assert finding.state == "problem"
    assert "EVAL is refused" in finding.found
    assert "ACL SETUSER NAME +eval" in str(finding.remedy)


@pytest.mark.parametrize(
    ("product", "text", "wanted"),
    [
        ("Redis", "7.0.15", "7.2.15"),
        ("Redis", "7.2.14", "7.2.15"),
        ("Redis", "7.2.15", None),
        ("Redis", "7.4.10", None),
        ("Redis", "8.0.4", "8.2.8"),
        ("Redis", "8.8.0", "8.8.1"),
        ("Redis", "9.0.0", None),
        ("Valkey", "8.1.3", "8.1.6"),
        ("Valkey", "9.0.2", "9.0.3"),
        ("Valkey", "9.1.2", None),
        ("Valkey", "9.1.0-rc1", None),
    ],
)
def test_releases_with_known_holes_name_the_one_to_upgrade_to(
    product: Product, text: str, wanted: str | None
) -> None:
    assert fixed_release(product, parse_version(text)) == wanted
    findings = _version(product, text)
    assert bool(findings) == (wanted is not None)
    if wanted is not None:
        assert f"Upgrade to {product} {wanted} or newer" in str(findings[0].remedy)


def test_a_redis_before_7_is_a_problem() -> None:
    assert [finding.state for finding in _version("Redis", "6.2.22")] == ["problem"]


@pytest.mark.parametrize(
    ("url", "is_open"),
    [
        ("redis://cache.example.org:6379/0", True),
        ("redis://:secret@cache.example.org:6379/0", False),
        ("redis://127.0.0.1:6379/0", False),
        ("unix:///run/valkey.sock", False),
    ],
)
def test_another_machine_without_a_password_is_a_warning(url: str, is_open: bool) -> None:
    assert bool(_access(url)) == is_open


def _working_directory(client: "redis.Redis") -> Path:
    folder = Path(str(client.config_get("dir")["dir"]))
    socket = Path(unquote(urlsplit(str(client.config_get("unixsocket")["unixsocket"])).path))
    assert folder not in socket.parents
    return folder
