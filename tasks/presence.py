"""A worker's heartbeat: rows in `workers`, beaten by a native thread over a connection of its own.

One thread per worker beats for its whole process tree: itself and, in a prefork pool, every child
whose process lives. Rows of children that are gone are removed, so that what they held is free at
once instead of after the term.
"""

import os
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from psycopg import pq
from sqlalchemy import make_url

from models.workers import IDLE, Capacity
from tasks.native import native_pause, start_native_thread
from umbel.contracts import WorkerId, new_id

# Rows that are missing come back: a cut longer than the clean-up's patience must not leave a living
# process without one.
_BEAT: Final = b"""
INSERT INTO workers (id, node, role, pool, slots, queues, pid)
SELECT w.id, $1, $2, $3, $4::int, $5::text[], w.pid
FROM unnest($6::text[], $7::int[]) AS w(id, pid)
ON CONFLICT (id) DO UPDATE SET beat_at = now()
"""
_FORGET: Final = b"DELETE FROM workers WHERE id = ANY($1::text[])"
_KNOWN: Final = b"SELECT id, pid FROM workers WHERE node = $1"

_GLANCE_SECONDS: Final = 0.1
"""Longest time until a request to look is heard: a native thread cannot wait for an event."""


@dataclass(frozen=True, slots=True)
class Node:
    """One worker and its pool, as the database names it."""

    identity: str
    role: str
    pool: str
    capacity: Capacity = IDLE
    """Of each of its processes."""


class Presence:
    """Proof of life of one worker and its pool."""

    def __init__(
        self, database_url: str, node: Node, *, beat_seconds: float, dead_after_seconds: float
    ) -> None:
        self._conninfo = libpq_conninfo(database_url)
        self._node = [node.identity.encode(), node.role.encode(), node.pool.encode()]
        self._capacity = [str(node.capacity.slots).encode(), _array(node.capacity.queues)]
        self._beat_seconds = beat_seconds
        self._silence_allowed = dead_after_seconds * 0.8
        self._last_beat = time.monotonic()
        self._connection: pq.abc.PGconn | None = None
        self._known: dict[str, int] = {}
        self._is_over = False
        self._is_asked = False
        self._is_failing = False
        self.changes: deque[str | None] = deque(maxlen=20)
        """Causes of beats that begin to fail, None where they get through again; for a logger on
        another thread to take: this one must not log."""

    def start(self) -> None:
        """Beat until the process ends."""
        start_native_thread(self._beat_for_ever)

    def stop(self) -> None:
        """Beat no more: this process is about to remove its row."""
        self._is_over = True

    def look_now(self) -> None:
        """A child has died: do not wait for the next beat to remove its row. Returns at once."""
        self._is_asked = True

    @property
    def is_lost(self) -> bool:
        """No beat has got through for so long that others may take the work: stop and leave."""
        return time.monotonic() - self._last_beat > self._silence_allowed

    def _beat_for_ever(self) -> None:
        while not self._is_over:
            began = time.monotonic()
            try:
                self._beat()
                self._last_beat = began
                self._note(None)
            except Exception as error:  # noqa: BLE001 - a heartbeat must survive whatever happens
                self._note(f"{type(error).__name__}: {error}")
                self._connection = None
            self._pause_until(began + self._beat_seconds)

    def _note(self, cause: str | None) -> None:
        is_failing = cause is not None
        if is_failing != self._is_failing:
            self._is_failing = is_failing
            self.changes.append(cause)

    def _pause_until(self, moment: float) -> None:
        while not self._is_asked and (left := moment - time.monotonic()) > 0:
            native_pause(min(left, _GLANCE_SECONDS))
        self._is_asked = False

    def _beat(self) -> None:
        if self._connection is None:
            connection = pq.PGconn.connect(self._conninfo)
            if connection.status != pq.ConnStatus.OK:
                raise ConnectionError(connection.get_error_message())
            self._connection = connection
        rows = self._ask(_KNOWN, [self._node[0]])
        for index in range(rows.ntuples):
            worker = (rows.get_value(index, 0) or b"").decode()
            self._known[worker] = int(rows.get_value(index, 1) or b"0")
        dead = [worker for worker, pid in self._known.items() if not is_alive(pid)]
        if dead:
            self._ask(_FORGET, [_array(dead)])
            for worker in dead:
                del self._known[worker]
        if self._known and not self._is_over:
            ids, pids = list(self._known), list(self._known.values())
            self._ask(_BEAT, [*self._node, *self._capacity, _array(ids), _array(pids)])

    def _ask(self, sql: bytes, parameters: list[bytes]) -> "pq.abc.PGresult":
        assert self._connection is not None  # noqa: S101 - set by the only caller
        result = self._connection.exec_params(sql, parameters)
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            raise ConnectionError(result.get_error_message())
        return result


def new_worker_id() -> WorkerId:
    """An id for this process and this life of it."""
    return WorkerId(new_id("wrk"))


def default_node_name(role: str) -> str:
    """`role@host`."""
    return f"{role}@{socket.gethostname()}"


def role_of(name: str) -> str:
    """What a worker does, by its name: `control` for `control` and for `control-2`."""
    return name.rstrip("0123456789").rstrip("-_.") or name


def is_alive(pid: int) -> bool:
    """Whether this process or a child of it runs under that number, and has not ended.

    A number is given out again after a while: a stranger's life proves nothing about a child.
    """
    if not Path("/proc/self/stat").exists():  # not every system has it
        return _answers(pid)
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return state not in ("Z", "X") and os.getpid() in (pid, int(parent))


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def libpq_conninfo(database_url: str) -> bytes:
    """A SQLAlchemy URL as libpq wants it, with short timeouts for the heartbeat."""
    url = make_url(database_url).set(drivername="postgresql")
    wanted = {
        "connect_timeout": "3",
        "target_session_attrs": "read-write",
        "keepalives_idle": "5",
        "keepalives_interval": "2",
        "keepalives_count": "2",
        "tcp_user_timeout": "8000",
        "application_name": "umbel-beat",
    }
    missing = {key: value for key, value in wanted.items() if key not in url.query}
    return url.update_query_dict(missing).render_as_string(hide_password=False).encode()


def _array(values: Sequence[str | int]) -> bytes:
    """A PostgreSQL array literal; ids and numbers need no quoting."""
    return ("{" + ",".join(map(str, values)) + "}").encode()
