"""The news that a worker is to end, as its processes and the tools in them share it."""

import mmap


class DrainFlag:
    """Set once, and seen by every process forked after it was made.

    Celery tells only the parent of a prefork pool of its end, and an `Event` is copied by the fork.
    """

    __slots__ = ("_byte",)

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def is_set(self) -> bool:
        """Whether the worker is to end: take nothing new, hand back what can be handed back."""
        return self._byte[0] != 0

    def set(self) -> None:
        """From now on the worker ends."""
        self._byte[0] = 1
