import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from locks.ownership import OwnershipLocks, connect
from umbel.contracts import RunId

RUN, OTHER_RUN = RunId("run_1"), RunId("run_2")
MINE, YOURS = "wrk_a run_1", "wrk_b run_1"


@pytest.fixture
def locks(client: redis.Redis, prefix: str) -> OwnershipLocks:
    return OwnershipLocks(client, prefix=prefix, ttl_seconds=30)


@pytest.fixture
def away() -> OwnershipLocks:
    """Locks of a server that is not there."""
    return OwnershipLocks(connect("redis://127.0.0.1:1/0", role="test"), prefix="u", ttl_seconds=30)


def test_a_lock_is_taken_once(locks: OwnershipLocks) -> None:
    assert locks.acquire(RUN, MINE)
    assert not locks.acquire(RUN, YOURS)
    assert locks.acquire(OTHER_RUN, YOURS)
    assert locks.holders([RUN, OTHER_RUN]) == {RUN: MINE, OTHER_RUN: YOURS}


def test_the_owner_may_take_its_lock_again(locks: OwnershipLocks) -> None:
    assert locks.acquire(RUN, MINE)
    assert locks.acquire(RUN, MINE)


def test_of_many_that_want_a_lock_at_once_one_gets_it(locks: OwnershipLocks) -> None:
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda n: locks.acquire(RUN, f"wrk_{n} run_1"), range(40)))
    assert got.count(True) == 1


def test_a_released_lock_is_free(locks: OwnershipLocks) -> None:
    locks.acquire(RUN, MINE)
    locks.release(RUN, MINE)
    assert locks.holders([RUN]) == {}
    assert locks.acquire(RUN, YOURS)


def test_a_foreign_token_releases_and_renews_nothing(
    locks: OwnershipLocks, client: redis.Redis, prefix: str
) -> None:
    locks.acquire(RUN, MINE)
    client.pexpire(f"{prefix}:lock:{RUN}", 1_000)
    locks.release(RUN, YOURS)
    locks.renew(RUN, YOURS)
    assert locks.holders([RUN]) == {RUN: MINE}
    assert 0 < int(client.pttl(f"{prefix}:lock:{RUN}")) <= 1_000


def test_renewing_starts_the_term_anew(
    locks: OwnershipLocks, client: redis.Redis, prefix: str
) -> None:
    locks.acquire(RUN, MINE)
    client.pexpire(f"{prefix}:lock:{RUN}", 1_000)
    locks.renew(RUN, MINE)
    assert int(client.pttl(f"{prefix}:lock:{RUN}")) > 25_000


def test_renewing_a_lock_that_is_gone_does_not_bring_it_back(locks: OwnershipLocks) -> None:
    locks.renew(RUN, MINE)
    assert locks.holders([RUN]) == {}


def test_every_lock_ends_by_itself(locks: OwnershipLocks, client: redis.Redis, prefix: str) -> None:
    locks.acquire(RUN, MINE)
    assert 25_000 < int(client.pttl(f"{prefix}:lock:{RUN}")) <= 30_000


def test_nobody_holds_what_is_not_locked(locks: OwnershipLocks) -> None:
    assert locks.holders([]) == {}
    assert locks.holders([RUN]) == {}


def test_a_server_that_is_away_refuses_nobody(away: OwnershipLocks) -> None:
    assert away.acquire(RUN, MINE)
    assert away.acquire(RUN, YOURS)
    away.renew(RUN, MINE)
    away.release(RUN, MINE)
    assert away.holders([RUN]) == {}


def test_a_server_that_is_away_slows_nobody_down(away: OwnershipLocks) -> None:
    away.acquire(RUN, MINE)
    began = time.monotonic()
    for _ in range(1_000):
        away.acquire(RUN, MINE)
    assert time.monotonic() - began < 0.5, "it is left alone for a while"


def test_an_answer_that_is_an_error_refuses_nobody(client: redis.Redis, prefix: str) -> None:
    locks = OwnershipLocks(client, prefix=prefix, ttl_seconds=30)
    client.lpush(f"{prefix}:lock:{RUN}", "not a lock")
    assert locks.acquire(RUN, MINE)
