"""The first word with a Redis of the settings: is it there, and does it take us?"""

from typing import Final

import redis
from redis.exceptions import AuthenticationError, AuthorizationError, NoPermissionError

from locks.ownership import connect
from umbel.cli.safe_text import one_line
from umbel.errors import Misconfigured, Unavailable
from umbel.settings_faults import without_password

_NO_RIGHTS: Final = (AuthenticationError, AuthorizationError, NoPermissionError)
_NO_DATABASE: Final = ("DB index is out of range", "Invalid Database")
_NO_ACCESS: Final = ("WRONGPASS", "NOAUTH", "NOPERM", "invalid username-password")


def greet(redis_url: str) -> None:
    """Ping it once.

    Raises:
        Misconfigured: it refuses the password, the user or the number of the database.
        Unavailable: it does not answer.
    """
    client = connect(redis_url, role="cli", max_connections=2)
    try:
        client.ping()  # pyright: ignore[reportUnknownMemberType]  # untyped keywords in redis-py
    except redis.RedisError as error:
        raise _refusal(error, without_password(redis_url)) from error
    finally:
        client.close()


def _refusal(error: redis.RedisError, shown: str) -> Misconfigured | Unavailable:
    said = one_line(str(error)).rstrip(".")
    if any(words in said for words in _NO_DATABASE):
        action = "Correct the number of the database at the end of UMBEL_REDIS_URL"
    elif isinstance(error, _NO_RIGHTS) or any(words in said for words in _NO_ACCESS):
        action = "Correct the user and password in UMBEL_REDIS_URL"
    else:
        return Unavailable(
            f"Redis at {shown} does not answer: {said}. Start it, or unset UMBEL_REDIS_URL to use "
            "the embedded Valkey."
        )
    return Misconfigured(f"Redis at {shown} refuses the connection: {said}. {action}.")
