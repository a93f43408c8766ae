"""The words for what `umbel up` tells."""

import shlex
from collections.abc import Iterator
from typing import Final, assert_never

from umbel.cli.up_happenings import (
    UP,
    Addresses,
    Happening,
    ProcessEnded,
    ProcessLine,
    ProcessReady,
    ProcessStarted,
    Progress,
    SystemFailed,
    SystemReady,
    SystemStopped,
    SystemStopping,
)
from umbel.log_line import trace_text, untimed_text
from umbel.safe_text import safe

NAME_WIDTH: Final = 9
_MASK: Final = ":***@"


def teller_of(happening: Happening) -> str:
    """Under whose name people read it: a process tells its own lines, `up` everything else."""
    return happening.process if isinstance(happening, ProcessLine) else UP


def lines_of(happening: Happening) -> Iterator[str]:
    """What people read about it, harmless for a terminal; the time is left to the caller."""
    match happening:
        case Addresses():
            yield from _addresses(happening)
        case Progress():
            yield f"{happening.topic}: {happening.text}"
        case ProcessLine():
            yield from _of_line(happening)
        case ProcessStarted() | ProcessReady() | ProcessEnded():
            yield _of_process(happening)
        case _:
            yield from _of_system(happening).splitlines()


def _of_line(told: ProcessLine) -> Iterator[str]:
    if told.log is None:
        yield safe(told.text or "")
        return
    yield untimed_text(told.log)
    yield from trace_text(told.log).splitlines()[1:]


def _of_system(happening: SystemReady | SystemStopping | SystemStopped | SystemFailed) -> str:
    match happening:
        case SystemReady():
            return f"ready: all {happening.processes} processes, after {happening.seconds:.1f} s"
        case SystemStopping():
            return f"stopping: {happening.text}"
        case SystemStopped():
            return f"stopped after {happening.seconds:.1f} s; nothing is left running"
        case SystemFailed():
            return happening.message
        case _:
            assert_never(happening)


def _of_process(happening: ProcessStarted | ProcessReady | ProcessEnded) -> str:
    match happening:
        case ProcessStarted():
            return f"{happening.process} starts as process {happening.pid}"
        case ProcessReady():
            return f"{happening.process} is ready after {happening.seconds:.1f} s"
        case ProcessEnded():
            again = f"it is started again in {happening.restart_in_seconds:g} s"
            return f"{happening.process} {happening.how}; {again}"
        case _:
            assert_never(happening)


def _addresses(told: Addresses) -> Iterator[str]:
    yield f"data      {told.data}"
    yield f"log       {told.log}"
    if told.flower_url is None:
        yield "Flower    off"
    else:
        yield f"Flower    {told.flower_url}  user {told.flower_user}, password {_password(told)}"
    yield f"metrics   {told.metrics_url or 'off'}"
    where = "" if told.is_default_data else f" --data {shlex.quote(told.data)}"
    yield f'enqueue   umbel runs create "…"{where}'
    yield "          or from a service, with its settings:"
    exports = {
        "UMBEL_DATABASE_URL": told.database_url,
        "UMBEL_REDIS_URL": told.redis_url,
        "UMBEL_MODEL": told.model,
        "UMBEL_MODEL_BASE_URL": told.model_base_url,
    }
    for name, value in exports.items():
        # A line to copy must work: one without its password would not.
        hidden = "  # with the password of your settings" if _MASK in value else ""
        yield f"          export {name}={shlex.quote(value)}{hidden}"


def _password(told: Addresses) -> str:
    if told.flower_password is not None:
        return told.flower_password.get_secret_value()
    return f"in {told.flower_password_file}" if told.flower_password_file else "of your settings"
