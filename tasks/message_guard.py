"""A guard for kombu 5.7: a worker outlives what stands in a queue and is no message.

Without it, text that is not JSON ends the worker ("Unrecoverable error"), and JSON that is no
message makes it drop its connection to the broker. A compressed body would be unpacked before
anybody looks at it: a megabyte becomes a gigabyte. Ours are never compressed, so it is refused.
"""

import base64
import functools
import logging
from importlib.metadata import version
from queue import Empty
from typing import Any, Final, cast

from celery.utils.dispatch import Signal
from kombu.transport import redis as transport
from kombu.transport import virtual

from tasks.kombu_guard import KNOWN_VERSIONS

log: Final = logging.getLogger(__name__)

message_dropped: Final = Signal(name="message_dropped")
"""Sent for every message that cannot be decoded, once it is dropped."""


def install_message_guard() -> bool:
    """Check every message before kombu handles it; False for a kombu it was not made for.

    What is no message is dropped, which to kombu looks like an empty queue.
    """
    module, delivery = cast("Any", transport), cast("Any", virtual.Transport)
    original_loads, original_deliver = module.loads, delivery._deliver  # noqa: SLF001
    if getattr(original_loads, "is_umbel_guard", False):
        return True
    if not version("kombu").startswith(KNOWN_VERSIONS):
        return False

    @functools.wraps(original_loads)
    def loads(text: str) -> object:
        try:
            return original_loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            _say_dropped(type(error).__name__)
            raise Empty from None

    @functools.wraps(original_deliver)
    def deliver(self: Any, message: object, queue: str) -> None:
        if not is_message(message):
            _say_dropped("no message")
            raise Empty
        original_deliver(self, message, queue)

    loads.is_umbel_guard = True  # type: ignore[attr-defined]
    module.loads = loads
    delivery._deliver = deliver  # noqa: SLF001
    return True


def _say_dropped(cause: str) -> None:
    log.error("message unreadable and dropped", extra={"cause": cause})
    message_dropped.send(sender=None)


def is_message(found: object) -> bool:
    """Whether kombu and Celery can take it apart; what its body says is not looked at."""
    match found:
        case {
            "body": str() as body,
            "properties": {"delivery_tag": str(), "delivery_info": dict()} as properties,
            "headers": dict() as headers,
            "content-type": str() | None,
            "content-encoding": str() | None,
        }:
            names = (headers.get("task", ""), headers.get("id", ""))
            has_names = all(isinstance(name, str) for name in names)
            is_plain = not headers.get("compression")
            return has_names and is_plain and _is_readable(body, properties.get("body_encoding"))
        case _:
            return False


def _is_readable(body: str, encoding: object) -> bool:
    if encoding not in (None, "utf-8", "base64"):
        return False
    try:
        base64.b64decode(body if encoding == "base64" else "")
    except ValueError:
        return False
    return True
