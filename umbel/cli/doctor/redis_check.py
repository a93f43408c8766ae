"""Redis or Valkey: doorbell, locks and live text. It may vanish, but must not refuse or evict."""

import time
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis.exceptions import NoPermissionError

from locks.ownership import connect
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding, problem, warning, worst
from umbel.cli.doctor.own_servers import own_server_remedy
from umbel.cli.doctor.redis_versions import Product, fixed_release, parse_version
from umbel.cli.redis_contact import greet
from umbel.errors import Unavailable
from umbel.settings_faults import without_password

_OLDEST: Final = 7
_NEARLY_FULL: Final = 0.85
_PINGS: Final = 3
"""The quickest counts: other checks run beside this one."""
_LOOPBACK: Final = (None, "localhost", "127.0.0.1", "::1")

Info = Mapping[str, Any]


def look_at_redis(context: Context) -> Finding:
    """The server: there, writable, new enough, keeping what it was given."""
    url = context.settings.redis_url
    if url is None:
        return problem(
            "redis",
            "no address is set, and no system runs here",
            "Set UMBEL_REDIS_URL=redis://host:6379/0, or start `umbel up`.",
        ).blocking()
    try:
        greet(url)
    except Unavailable as error:
        remedy = own_server_remedy(context, "valkey", unquote(urlsplit(url).path))
        if remedy is None:
            raise
        return problem("redis", str(error).rpartition(". ")[0], remedy).blocking()
    with connect(url, role="doctor", max_connections=2) as client:
        info = _info(client)
        latency_ms = min(_round_trip_ms(client) for _ in range(_PINGS))
    if isinstance(info, Finding):
        return info
    product, text = _product(info)
    found = f"{product} {text} at {without_password(url)}, {latency_ms:.1f} ms, {_keeping(info)}"
    concerns = [
        *_writing(info),
        *_memory(info),
        *_version(product, text),
        *_access(url),
    ]
    return worst(
        "redis",
        found,
        concerns,
        product=product,
        version=text,
        latency_ms=round(latency_ms, 2),
        eviction_policy=info.get("maxmemory_policy"),
    )


def _round_trip_ms(client: "redis.Redis") -> float:
    began = time.monotonic()
    client.ping()  # pyright: ignore[reportUnknownMemberType]  # untyped keywords in redis-py
    return (time.monotonic() - began) * 1000


def _info(client: "redis.Redis") -> Info | Finding:
    """What the server says of itself, or the right that is missing; nothing is written."""
    asked = "EVAL"
    try:
        client.eval("return 1", 0)
        asked = "INFO"
        return cast("Info", client.info())  # pyright: ignore[reportUnknownMemberType]  # untyped
    except NoPermissionError as error:
        remedy = (
            f"Give the user of UMBEL_REDIS_URL the right: `ACL SETUSER NAME +{asked.lower()}`; "
            "on its own keys and channels `+@all -@dangerous +info` is enough."
        )
        return problem("redis", f"{asked} is refused: {error}", remedy).blocking()
    except redis.RedisError as error:
        remedy = "Look at the log of Redis, and repair or restart it."
        return problem("redis", f"{asked} failed: {error}", remedy).blocking()


def _product(info: Info) -> tuple[Product, str]:
    if "valkey_version" in info:
        return "Valkey", str(info["valkey_version"])
    return "Redis", str(info.get("redis_version", "0"))


def _keeping(info: Info) -> str:
    if info.get("aof_enabled"):
        return "append-only file"
    return "no append-only file: a restart costs time, no work"


def _writing(info: Info) -> list[Finding]:
    """Whether it takes writes at all; where it does not, nothing behind it can work."""
    if info.get("role") == "slave":
        primary = f"{info.get('master_host')}:{info.get('master_port')}"
        return [
            problem(
                "redis",
                f"a read-only replica of {primary}",
                f"Point UMBEL_REDIS_URL at the primary ({primary}), or make this one the primary "
                "with `redis-cli REPLICAOF NO ONE`.",
            ).blocking()
        ]
    failed = [
        name
        for name in ("rdb_last_bgsave_status", "aof_last_write_status")
        if info.get(name) == "err"
    ]
    if not failed:
        return []
    return [
        problem(
            "redis",
            f"cannot save to disk ({', '.join(failed)} is err) and may refuse writes (MISCONF)",
            "Free disk space or correct the rights of its directory (`redis-cli CONFIG GET dir`), "
            "then run `redis-cli BGSAVE`.",
        )
    ]


def _memory(info: Info) -> list[Finding]:
    policy, limit = str(info.get("maxmemory_policy", "noeviction")), int(info.get("maxmemory", 0))
    concerns: list[Finding] = []
    if policy != "noeviction":
        # Without a limit nothing is evicted yet; with one, the broker's own keys are at risk.
        kind = problem if limit and policy.startswith("allkeys") else warning
        remedy = (
            "Run `redis-cli CONFIG SET maxmemory-policy noeviction` and write it into its "
            "configuration file: evicted keys are lost messages."
        )
        concerns.append(kind("redis", f"evicts by {policy}", remedy))
    used = int(info.get("used_memory", 0)) / limit if limit else 0.0
    if used > _NEARLY_FULL:
        kind = problem if used >= 1 else warning
        remedy = "Raise its maxmemory, or move what does not belong to Umbel to another Redis."
        concerns.append(kind("redis", f"{used:.0%} of maxmemory is used", remedy))
    return concerns


def _version(product: Product, text: str) -> list[Finding]:
    version = parse_version(text)
    if version[0] < _OLDEST:
        remedy = "Upgrade to Redis 7 or newer, or to Valkey."
        return [problem("redis", "too old", remedy)]
    fixed = fixed_release(product, version)
    if fixed is None:
        return []
    remedy = (
        f"Upgrade to {product} {fixed} or newer, unless your distribution carries the fixes under "
        "the old number; let nobody but Umbel reach it."
    )
    return [warning("redis", "a release with known holes", remedy)]


def _access(url: str) -> list[Finding]:
    parts = urlsplit(url)
    has_password = bool(parts.password or "password" in parse_qs(parts.query))
    if parts.scheme == "unix" or parts.hostname in _LOOPBACK or has_password:
        return []
    remedy = "Set `requirepass` or an ACL user on the server, and the password in UMBEL_REDIS_URL."
    return [warning("redis", "another machine, and no password", remedy)]
