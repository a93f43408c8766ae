"""What `umbel up` tells: a closed set, shown as text or as one JSON line each.

The field names are the documented schema of `--json` (docs/cli.md): adding a field is fine,
renaming one is not.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from pydantic import SecretStr

UP: Final = "up"
"""Our own name among those of the processes."""

Topic = Literal["model", "servers", "database", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Something on the way, or a remark."""

    type: ClassVar[str] = "system.progress"
    process: str = UP
    topic: Topic
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted:
    """A process has a number; it is not ready yet."""

    type: ClassVar[str] = "process.started"
    process: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReady:
    """A process does its work."""

    type: ClassVar[str] = "process.ready"
    process: str
    seconds: float
    """Since it was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded:
    """A process ended without being asked to, and will be started again."""

    type: ClassVar[str] = "process.ended"
    process: str
    exit_code: int
    """Negative: the number of the signal that ended it."""
    how: str
    restart_in_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLine:
    """A line that a process wrote."""

    type: ClassVar[str] = "process.line"
    process: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
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
class SystemReady:
    """Every process is ready."""

    type: ClassVar[str] = "system.ready"
    process: str = UP
    processes: int
    seconds: float
    """Since the command was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStopping:
    """The end begins."""

    type: ClassVar[str] = "system.stopping"
    process: str = UP
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStopped:
    """Nothing runs any more."""

    type: ClassVar[str] = "system.stopped"
    process: str = UP
    seconds: float
    """Since the end began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFailed:
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
