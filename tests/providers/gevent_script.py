"""Run in a process of its own: the adapter with gevent's patches, as a step worker has it."""

from gevent import monkey

monkey.patch_all()

import json  # noqa: E402 - the patches come first
import os  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402

import gevent  # noqa: E402

from providers.chat import ChatProvider  # noqa: E402
from providers.contract import StreamControl, StreamHandle, StreamLimits  # noqa: E402
from tests.providers.endpoint import HEAD, REQUEST, Visit, control, provider_at, serving  # noqa: E402
from tests.providers.wire import end, text  # noqa: E402


def ask(provider: ChatProvider, controls: StreamControl) -> tuple[str, str | None, float]:
    body = provider.render(REQUEST, provider.form())
    turn = provider.stream(REQUEST, body, controls)
    return turn.text, turn.failure.error_class if turn.failure else None, time.monotonic()


def slow_answer(visit: Visit) -> None:
    visit.send(HEAD)
    visit.over.wait(0.2)
    visit.chunk(text("ok") + end())
    visit.end()


def silent_after_text(visit: Visit) -> None:
    visit.send(HEAD)
    visit.chunk(text("a"))
    visit.hang()


def aborted(answer: Callable[[Visit], None]) -> tuple[str | None, float]:
    """The class of an aborted stream, and how long the reader took to wake."""

    handle = StreamHandle()
    with serving(answer) as server:
        reader = gevent.spawn(ask, provider_at(server.base_url), control(handle=handle))
        while not server.visits:
            gevent.sleep(0.01)
        gevent.sleep(0.1)
        start = time.monotonic()
        handle.abort("stop")
        reader.join(20)
    assert reader.value is not None
    _, error_class, woke_at = reader.value
    return error_class, woke_at - start


def main() -> None:
    with serving(slow_answer) as server:
        provider = provider_at(server.base_url)
        provider.prepare()
        forks: list[None] = []
        os.register_at_fork(before=lambda: forks.append(None))
        start = time.monotonic()
        readers = [gevent.spawn(ask, provider, control()) for _ in range(50)]
        gevent.joinall(readers, timeout=60)
        together = time.monotonic() - start
    quick = StreamLimits(silence_seconds=0.3, first_event_seconds=0.3, progress_seconds=0.3)
    with serving(silent_after_text) as server:
        stalled = ask(provider_at(server.base_url), control(quick))[1]
    aborts = [aborted(silent_after_text), aborted(Visit.hang)]
    result = {
        "texts": [reader.value[0] for reader in readers if reader.value],
        "together_seconds": together,
        "forks": len(forks),
        "stalled": stalled,
        "aborted": [error_class for error_class, _ in aborts],
        "woke_seconds": [seconds for _, seconds in aborts],
    }
    sys.stdout.write(json.dumps(result) + "\n")


main()
