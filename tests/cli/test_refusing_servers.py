import re

import pytest
from sqlalchemy import make_url

from models.migration import check
from models.refusals import connection_error
from umbel.cli.redis_contact import greet
from umbel.errors import Misconfigured, Unavailable


def test_a_database_that_does_not_exist_is_a_fault_of_the_settings(database_url: str) -> None:
    url = make_url(database_url).set(database="no_such_database")
    with pytest.raises(Misconfigured, match=r"`createdb no_such_database`.*UMBEL_DATABASE_URL"):
        check(url.render_as_string(hide_password=False))


def test_nobody_there_is_no_fault_of_the_settings_and_reads_as_one_line() -> None:
    with pytest.raises(Unavailable) as caught:
        check("postgresql+psycopg://nobody@127.0.0.1:1/none")
    text = str(caught.value)
    assert text.startswith("PostgreSQL does not answer")
    assert re.search(r"[\t\n]|\.\.", text) is None


@pytest.mark.parametrize(
    ("said", "kind", "action"),
    [
        ('FATAL:  role "ann" does not exist', Misconfigured, "`createuser ann`"),
        ('FATAL:  password authentication failed for user "ann"', Misconfigured, "password in U"),
        ("fe_sendauth: no password supplied", Misconfigured, "password in UMBEL_DATABASE_URL"),
        ('FATAL:  no pg_hba.conf entry for host "::1"', Misconfigured, "pg_hba.conf, or"),
        ('FATAL:  permission denied for database "x"', Misconfigured, "Correct UMBEL_DATABASE_"),
        ("FATAL:  the database system is starting up", Unavailable, "starting up."),
        ("FATAL:  sorry, too many clients already", Unavailable, "too many clients already."),
        ("Connection refused\n\tIs the server running?", Unavailable, "refused Is the server"),
    ],
)
def test_only_refusals_that_do_not_pass_are_faults_of_the_settings(
    said: str, kind: type[Exception], action: str
) -> None:
    error = connection_error(OSError(said))
    assert type(error) is kind
    assert action in str(error)


def test_a_redis_that_refuses_us_is_a_fault_of_the_settings(redis_url: str) -> None:
    address = redis_url.partition("?")[0]  # a unix socket of the tests' own server
    with pytest.raises(Misconfigured, match="Correct the number of the database"):
        greet(f"{address}?db=99999")
    with pytest.raises(Misconfigured, match="Correct the user and password"):
        greet(f"{address}?username=nobody&password=hunter2")


def test_a_redis_that_is_away_is_no_fault_of_the_settings() -> None:
    with pytest.raises(Unavailable, match=r"does not answer: .*UMBEL_REDIS_URL"):
        greet("redis://127.0.0.1:1/0")
