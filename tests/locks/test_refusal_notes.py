import redis

from locks.ownership import connect
from locks.refusal_notes import RefusalNotes
from providers.profiles import EndpointProfile
from providers.refusals import Refusals

ADDRESS = "https://models.example/v1"


def test_what_one_worker_learnt_another_knows(client: redis.Redis, prefix: str) -> None:
    RefusalNotes(client, prefix=prefix).save(ADDRESS, "stream_options")
    learnt = Refusals(RefusalNotes(client, prefix=prefix))
    assert not learnt.applied_to(EndpointProfile(), ADDRESS).asks_for_usage
    assert learnt.applied_to(EndpointProfile(), "https://other.example/v1").asks_for_usage


def test_a_refusal_is_forgotten_some_day(client: redis.Redis, prefix: str) -> None:
    RefusalNotes(client, prefix=prefix).save(ADDRESS, "strict")
    [key] = client.scan_iter(match=f"{prefix}:refused:*")
    assert 0 < client.ttl(key) <= 7 * 24 * 3600


def test_a_server_that_is_away_knows_nothing_and_breaks_nothing() -> None:
    away = RefusalNotes(connect("redis://127.0.0.1:1/0", role="test"), prefix="umbeltest")
    away.save(ADDRESS, "strict")
    assert away.load(ADDRESS) == frozenset()
