import pytest
import redis

from locks.live import LivePublisher, LiveReader
from locks.ownership import connect
from umbel.contracts import RunId

RUN = RunId("run_1")


@pytest.fixture
def reader(client: redis.Redis, prefix: str) -> LiveReader:
    return LiveReader(client, prefix=prefix, run_id=RUN)


def a_publisher(client: redis.Redis, prefix: str, attempt: int = 1) -> LivePublisher:
    return LivePublisher(client, prefix=prefix, run_id=RUN, step=1, attempt=attempt)


def test_pieces_arrive_whole_and_in_order(
    client: redis.Redis, prefix: str, reader: LiveReader
) -> None:
    publisher = a_publisher(client, prefix)
    for piece in ("Hel", "lo", ", {wörld} 😀"):
        publisher.add("text", piece)
    publisher.add("reasoning", "hm")
    publisher.flush()
    deltas = list(reader.read(0.01))
    texts = "".join(delta.text for delta in deltas if delta.kind == "text")
    assert texts == "Hello, {wörld} 😀"
    assert deltas[-1].kind == "reasoning"
    assert {(delta.step, delta.attempt) for delta in deltas} == {(1, 1)}
    assert list(reader.read(0.001)) == []


def test_pieces_of_one_kind_travel_together_and_calls_stay_apart(
    client: redis.Redis, prefix: str, reader: LiveReader
) -> None:
    publisher = a_publisher(client, prefix)
    publisher.flush()  # from now on pieces are collected for a moment
    for piece in ("a", "b"):
        publisher.add("text", piece)
    for piece in ("look", "read"):
        publisher.add("call", piece)
    publisher.flush()
    assert [(delta.kind, delta.text) for delta in reader.read(0.01)] == [
        ("text", "ab"),
        ("call", "look"),
        ("call", "read"),
    ]


def test_a_reader_goes_on_where_it_was(
    client: redis.Redis, prefix: str, reader: LiveReader
) -> None:
    first = a_publisher(client, prefix)
    first.add("text", "one")
    first.flush()
    assert [delta.text for delta in reader.read(0.01)] == ["one"]
    second = a_publisher(client, prefix, attempt=2)
    second.add("text", "two")
    second.flush()
    [delta] = reader.read(0.01)
    assert (delta.text, delta.attempt) == ("two", 2)


def test_the_stream_ends_by_itself_and_stays_small(client: redis.Redis, prefix: str) -> None:
    publisher = a_publisher(client, prefix)
    for number in range(3_000):
        publisher.add("call", str(number))
    publisher.flush()
    assert 0 < int(client.ttl(f"{prefix}:live:{RUN}")) <= 3_600
    assert int(client.xlen(f"{prefix}:live:{RUN}")) < 2_500


def test_half_a_character_does_not_break_the_stream(
    client: redis.Redis, prefix: str, reader: LiveReader
) -> None:
    publisher = a_publisher(client, prefix)
    publisher.add("text", "half \ud83d pair")
    publisher.add("text", "whole")
    publisher.flush()
    assert "whole" in "".join(delta.text for delta in reader.read(0.01))


def test_a_server_that_is_away_never_disturbs_the_answer() -> None:
    publisher = a_publisher(connect("redis://127.0.0.1:1/0", role="test"), "u")
    for number in range(200):
        publisher.add("text", str(number))
        publisher.flush()
