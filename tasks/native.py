"""Real operating-system threads, also where gevent has replaced `threading`.

Under gevent a "thread" is a greenlet: a step that keeps the hub busy would stop the heartbeat. And
`monkey.get_original("threading", "Thread")` is not native either: only `_thread` is. Code on such a
thread must not touch anything patched: no logging, locks, queues, pools or Python sockets.
"""

import _thread
import sys
import time
from collections.abc import Callable
from typing import Any, cast


def is_gevent() -> bool:
    """Whether gevent has replaced the standard library's blocking parts in this process."""
    monkey = sys.modules.get("gevent.monkey")
    return bool(monkey and monkey.is_module_patched("socket"))


def start_native_thread(body: Callable[[], None]) -> None:
    """Run `body` on a thread of the operating system, for as long as the process lives."""
    start = cast(
        "Callable[[Callable[[], None], tuple[()]], object]", _original(_thread, "start_new_thread")
    )
    start(body, ())


def native_pause(seconds: float) -> None:
    """Wait on a native thread without touching the hub."""
    pause = cast("Callable[[float], None]", _original(time, "sleep"))
    pause(seconds)


def _original(module: Any, name: str) -> object:
    if not is_gevent():
        return getattr(module, name)
    from gevent import monkey

    return cast("object", monkey.get_original(module.__name__, name))
