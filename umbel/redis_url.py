"""One Redis address in settings, two spellings: redis-py's own, and the one kombu understands."""

from typing import Final
from urllib.parse import SplitResult, parse_qs, quote, urlencode, urlsplit

from umbel.errors import Misconfigured

_SAME_IN_BOTH: Final = ("redis", "rediss")


def broker_url(redis_url: str) -> str:
    """The Celery `broker_url` of a redis-py URL; both reach the same server and database.

    `unix:///run/valkey.sock?db=1` becomes `redis+socket:///run/valkey.sock?virtual_host=1`, with
    user and password where kombu looks for them. Other options of a `unix` URL are left out: they
    tune redis-py's connections, and kombu would pass them on as text.

    Raises:
        Misconfigured: the scheme is none of redis, rediss and unix, or a unix URL names no path.
    """
    parts = urlsplit(redis_url)
    if parts.scheme in _SAME_IN_BOTH:
        return redis_url
    if parts.scheme != "unix":
        raise Misconfigured(
            f"The Redis URL has the scheme {parts.scheme!r}; set UMBEL_REDIS_URL to "
            "one that starts with redis://, rediss:// or unix://."
        )
    if not parts.path.strip("/"):
        raise Misconfigured(
            "The Redis URL names no socket; set UMBEL_REDIS_URL to unix:///path/to/valkey.sock."
        )
    options = {key: values[0] for key, values in parse_qs(parts.query).items()}
    # kombu splits a broker URL at every semicolon, into alternative brokers.
    path = parts.path.replace(";", "%3B")
    database = f"?{urlencode({'virtual_host': options['db']})}" if "db" in options else ""
    return f"redis+socket://{_credentials(parts, options)}{path}{database}"


def _credentials(parts: SplitResult, options: dict[str, str]) -> str:
    written, at, _ = parts.netloc.rpartition("@")
    if at:
        return f"{written}@"
    user = quote(options.get("username", ""), safe="")
    password = quote(options.get("password", ""), safe="")
    return f"{user}:{password}@" if password else ""
