"""Celery's consumer, told at once that its worker ends; it also tells of what it cannot decode.

On a pool of greenlets Celery 5.7 looks for its end only between waits of two seconds for messages,
and waits once more after it has seen it: an idle worker took 3.7 s to stop.
"""

from typing import TYPE_CHECKING, Any, Final

from celery import signals
from celery.worker.consumer import Consumer

from tasks.message_guard import message_dropped

if TYPE_CHECKING:
    from greenlet import greenlet

_REST_SECONDS: Final = 0.01
"""Celery asks again until it has noticed its end; others run meanwhile."""


class CuttablePoller:
    """Kombu's wait for readable sockets, which can be ended as if its time were over."""

    def __init__(self, poller: Any) -> None:
        self._poller = poller
        self._waiter: greenlet | None = None
        self._is_cut = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)

    def poll(self, timeout: float | None) -> Any:
        """What kombu's own poller gives.

        Raises:
            TimeoutError: the wait was cut.
        """
        import gevent
        from greenlet import getcurrent

        if self._is_cut:
            gevent.sleep(_REST_SECONDS)
            raise TimeoutError
        self._waiter = getcurrent()
        try:
            return self._poller.poll(timeout)
        finally:
            self._waiter = None

    def cut(self) -> None:
        """End the wait that is on, and every further one. Never blocks."""
        import gevent

        self._is_cut = True
        gevent.get_hub().loop.run_callback(self._raise_in_waiter)

    def _raise_in_waiter(self) -> None:
        # In the hub, and only while it waits for sockets: a message that has been taken is handled.
        if self._waiter is not None:
            self._waiter.throw(TimeoutError())


class PromptConsumer(Consumer):
    """Celery's consumer; in a gevent worker it notices its end at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._poller: CuttablePoller | None = None
        signals.worker_shutting_down.connect(self._end_wait)

    def loop_args(self) -> tuple[Any, ...]:
        """What Celery's loop works with, once per connection to the broker."""
        if getattr(self.pool, "is_green", False) and self.connection is not None:
            transport: Any = self.connection.transport  # `cycle` is kombu's, for Redis
            self._poller = CuttablePoller(transport.cycle.poller)
            transport.cycle.poller = self._poller
        return super().loop_args()

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """As Celery does: log and drop."""
        super().on_decode_error(message, exc)
        message_dropped.send(sender=None)

    def _end_wait(self, **_: object) -> None:
        if self._poller is not None:
            self._poller.cut()
