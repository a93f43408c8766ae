"""`python -m umbel.cli.alive ROLE`: whether the worker or beat of this host answers.

For health checks of containers: `celery inspect ping` asks the same, but loads the whole server
before, several times a minute, in every container.
"""

import socket
import sys
from typing import Final

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from umbel.cli import exits
from umbel.errors import Misconfigured
from umbel.redis_url import broker_url
from umbel.settings import load_settings

_NODES: Final = {"step": "step", "tool": "tool", "control": "control", "beat": "celerybeat"}
"""Role to the first part of its node name; beat's is Celery's own."""
_ANSWER_SECONDS: Final = 5.0


def is_alive(node: str) -> bool:
    """Whether this node answers through the broker.

    Raises:
        Misconfigured: a setting is wrong, or there is no broker.
        OperationalError, RedisError: the broker does not answer or refuses.
    """
    settings = load_settings()
    if settings.redis_url is None:
        raise Misconfigured("UMBEL_REDIS_URL is not set; give it the value the workers have.")
    app = Celery("umbel-alive", broker=broker_url(settings.redis_url), set_as_current=False)
    app.conf.update(
        result_backend="disabled://",
        broker_transport_options={
            "global_keyprefix": f"{{{settings.redis_prefix}}}:",
            "socket_connect_timeout": _ANSWER_SECONDS,
        },
    )
    # The first answer is the only one there can be: do not wait for others.
    return bool(app.control.ping(destination=[node], timeout=_ANSWER_SECONDS, limit=1))


def main(arguments: list[str]) -> int:
    """Exit code 0 if it answers, 3 if not, 2 if the question is wrong; says why on stderr."""
    if len(arguments) != 1 or arguments[0] not in _NODES:
        return _fail(f"Give one of {', '.join(_NODES)}.", exits.USAGE)
    node = f"{_NODES[arguments[0]]}@{socket.gethostname()}"
    try:
        if is_alive(node):
            return exits.COMPLETED
    except Misconfigured as error:
        return _fail(str(error), exits.USAGE)
    except (OperationalError, RedisError, OSError) as error:
        return _fail(f"Redis does not answer ({type(error).__name__}).", exits.UNAVAILABLE)
    return _fail(f"{node} does not answer.", exits.UNAVAILABLE)


def _fail(text: str, code: int) -> int:
    sys.stderr.write(f"umbel: {text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
