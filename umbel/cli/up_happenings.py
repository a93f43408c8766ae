"""What `umbel up` tells: a closed set, shown as text or as one JSON line each.

The field names are the documented schema of `--json` (docs/cli.md): adding a field is fine,
renaming one is not.
"""

import time
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Self

from pydantic import SecretStr

from umbel.log_line import LogLine, parse, time_text

UP: Final = "up"
"""Our own name among those of the processes."""

Topic = Literal["model", "servers", "database", "note"]


def _now() -> str:
    return time_text(time.time())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What all of them have."""

    at: str = field(default_factory=_now)
    """ISO time in UTC, to the millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(_Told):
    """Something on the way, or a remark."""

    type: ClassVar[str] = "system.progress"
    process: str = UP
    topic: Topic
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted(_Told):
    """A process has a number; it is not ready yet."""

    type: ClassVar[str] = "process.started"
    process: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReady(_Told):
    """A process does its work."""

    type: ClassVar[str] = "process.ready"
    process: str
    seconds: float
    """Since it was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded(_Told):
    """A process ended without being asked to, and will be started again."""

    type: ClassVar[str] = "process.ended"
    process: str
    exit_code: int
    """Negative: the number of the signal that ended it."""
    how: str
    restart_in_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLine(_Told):
    """A line that a process wrote; made by `of`."""

    type: ClassVar[str] = "process.line"
    process: str
    log: LogLine | None
    """A line of its log."""
    text: str | None
    """Any other line."""

    @classmethod
    def of(cls, process: str, line: str) -> Self:
        """What it wrote, at the time that it says, else now."""
        if (log := parse(line)) is not None:
            return cls(process=process, at=log.at, log=log, text=None)
        return cls(process=process, log=None, text=line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses(_Told):
    """Where everything is; told once. The addresses of servers are without their passwords."""

    type: ClassVar[str] = "system.addresses"
    process: str = UP
    data: str
    is_default_data: bool
    """Other commands find the system without being told where."""
    log: str
    database_url: str
    redis_url: str
    model: str
    """Of agents that name none."""
    model_base_url: str
    """Who enqueues must know it: it decides how the endpoint is spoken to."""
    flower_url: str | None
    flower_user: str | None
    flower_password_file: str | None
    """None: the password is the one of the settings."""
    flower_password: SecretStr | None
    """The one in that file; for text alone."""
    metrics_url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemReady(_Told):
    """Every process is ready."""

    type: ClassVar[str] = "system.ready"
    process: str = UP
    processes: int
    seconds: float
    """Since the command was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStopping(_Told):
    """The end begins."""

    type: ClassVar[str] = "system.stopping"
    process: str = UP
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStopped(_Told):
    """Nothing runs any more."""

    type: ClassVar[str] = "system.stopped"
    process: str = UP
    seconds: float
    """Since the end began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFailed(_Told):
    """Why the command ends without being asked to."""

    type: ClassVar[str] = "system.failed"
    process: str = UP
    message: str
    exit_code: int


Happening = (
    Progress
    | ProcessStarted
    | ProcessReady
    | ProcessEnded
    | ProcessLine
    | Addresses
    | SystemReady
    | SystemStopping
    | SystemStopped
    | SystemFailed
)
