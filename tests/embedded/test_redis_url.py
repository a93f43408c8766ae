"""What kombu makes of a converted URL, tried on a server."""

import pytest
import redis
from kombu import Connection

from umbel.embedded import embedded_servers
from umbel.errors import Misconfigured
from umbel.redis_url import broker_url


@pytest.mark.parametrize(
    "url", ["redis://host:6379/1", "rediss://:secret@host/0?ssl_cert_reqs=required"]
)
def test_urls_both_libraries_understand_stay_as_they_are(url: str) -> None:
    assert broker_url(url) == url


def test_a_message_sent_to_the_converted_url_lies_in_the_same_database() -> None:
    with embedded_servers(database=False) as servers:
        url = f"{servers.redis_url}?db=3&socket_timeout=5"
        with Connection(broker_url(url)) as connection, connection.SimpleQueue("q") as queue:
            queue.put("hello")
        with redis.Redis.from_url(url) as client:
            assert client.llen("q") == 1


@pytest.mark.parametrize("form", ["unix://:s%40cret@{path}", "unix://{path}?password=s%40cret"])
def test_the_password_reaches_the_server_however_it_is_written(form: str) -> None:
    with embedded_servers(database=False) as servers:
        with redis.Redis.from_url(servers.redis_url) as client:
            client.config_set("requirepass", "s@cret")
        url = form.format(path=servers.redis_url.removeprefix("unix://"))
        with redis.Redis.from_url(url) as client:
            assert client.ping()
        with Connection(broker_url(url)) as connection, connection.SimpleQueue("q") as queue:
            queue.put("hello")
            assert queue.get().payload == "hello"


def test_characters_that_mean_something_to_kombu_are_escaped() -> None:
    url = broker_url("unix:///a%20b/x;y.sock")
    assert url == "redis+socket:///a%20b/x%3By.sock"


@pytest.mark.parametrize("url", ["", "postgresql://host/db", "unix://", "memory://"])
def test_anything_else_is_refused_with_the_name_of_the_setting(url: str) -> None:
    with pytest.raises(Misconfigured, match="UMBEL_REDIS_URL"):
        broker_url(url)
