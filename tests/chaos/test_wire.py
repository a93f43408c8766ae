"""What the proxy before PostgreSQL does to a client."""

import random
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from tests.chaos.harness.wire import Wire, wire_to
from umbel.embedded import embedded_servers


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    with embedded_servers(redis=False) as servers:
        yield servers.database_url.replace("+psycopg", "")


@pytest.fixture
def wired(real: str) -> Iterator[tuple[Wire, str]]:
    with psycopg.connect(real, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS written")
        connection.execute("CREATE TABLE written (word text)")
    with wire_to(real) as found:
        yield found


def written(real: str) -> list[str]:
    with psycopg.connect(real) as connection:
        return [word for (word,) in connection.execute("SELECT word FROM written")]


def test_a_commit_whose_answer_is_lost_has_taken_place(real: str, wired: tuple[Wire, str]) -> None:
    wire, url = wired
    with closing(psycopg.connect(url)) as connection:
        connection.execute("INSERT INTO written VALUES ('kept')")
        assert wire.lose_an_answer(random.Random(1)) == 1
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    assert written(real) == ["kept"]


def test_a_cut_ends_what_was_not_committed(real: str, wired: tuple[Wire, str]) -> None:
    wire, url = wired
    with closing(psycopg.connect(url)) as connection:
        connection.execute("INSERT INTO written VALUES ('lost')")
        assert wire.cut() == 1
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    assert written(real) == []


def test_a_held_answer_comes_late_and_whole(real: str, wired: tuple[Wire, str]) -> None:
    wire, url = wired
    with closing(psycopg.connect(url)) as connection:
        assert wire.hold_an_answer(random.Random(1), 0.3) == 1
        row = connection.execute("SELECT repeat('x', 300000)").fetchone()
    assert row == ("x" * 300_000,)
