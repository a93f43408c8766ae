"""Kills what outlives its owner: `python -I -S child_warden.py SECONDS`, told of groups on stdin.

See `umbel.child_orphans`. Only the standard library, and no import of `umbel`.
"""

import contextlib
import os
import select
import signal
import sys
import time


def _guard(seconds: float) -> None:
    """Keep the list until its writer is gone; then give what is on it so many seconds."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    leaders = _leaders_left_over()
    deadline = time.monotonic() + seconds
    while leaders:
        left = max(0.0, deadline - time.monotonic())
        files: list[int] = list(leaders.values())
        ended: list[int] = select.select(files, (), (), left)[0]
        if not ended:
            break
        for leader in [x for x, file in leaders.items() if file in ended]:
            del leaders[leader]
    for leader in leaders:
        # It lives, as its descriptor says: the number is still that of its group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)


def _leaders_left_over() -> dict[int, int]:
    """The numbers of the leaders on the list once nobody writes it, each with its descriptor."""
    leaders: dict[int, int] = {}
    for line in iter(sys.stdin.readline, ""):
        leader = int(line[1:])
        if line.startswith("+"):
            with contextlib.suppress(ProcessLookupError):  # it was faster, and `-` comes next
                leaders[leader] = os.pidfd_open(leader)
        elif leader in leaders:
            os.close(leaders.pop(leader))
    return leaders


if __name__ == "__main__":
    _guard(float(sys.argv[1]))
