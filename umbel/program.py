"""Programs that tools run: in a process group of their own, limited, and gone when the tool ends.

    from umbel.program import run_program

    @umbel.tool(effect="read", stall_seconds=60)
    def build(context: umbel.ToolContext, target: str) -> dict[str, object]:
        \"\"\"Build a target.\"\"\"
        done = run_program(context, ["make", target], cwd=Path("/srv/checkout"))
        return {"exit_code": done.exit_code, "output": done.output}

Works the same on prefork, threads and gevent pools.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from umbel.errors import UmbelError
from umbel.tool import ToolContext, ToolFailed

_KEEPER: Final = Path(__file__).resolve().with_name("program_keeper.py")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOOK_SECONDS: Final = 0.2
_READ_BYTES: Final = 65_536
_KILL_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """What a program may use; every process that it starts has the same limits for itself."""

    cpu_seconds: int = 600
    memory_bytes: int = 2 * 2**30
    """Address space."""
    file_bytes: int = 256 * 2**20
    """Size of any file that it writes."""
    open_files: int = 256
    processes: int = 64
    """All that it has running at once, looked at five times a second."""
    output_bytes: int = 1_000_000
    """What is kept of its output; the rest is read and thrown away."""
    seconds: float | None = None
    """From start to end; None: as long as it is not silent for longer than its tool may be."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has ended by itself."""

    exit_code: int
    """128 and its number if a signal ended it, such as 137 for SIGKILL; 127: it did not start."""
    output: str
    """The beginning of stdout and stderr together; bytes that are not UTF-8 become U+FFFD."""
    total_bytes: int
    """How much it wrote."""
    has_network: bool
    """Whether it could reach what the worker can: it was granted, or could not be taken away."""

    @property
    def is_cut(self) -> bool:
        """Whether it wrote more than was kept."""
        return self.total_bytes > len(self.output.encode())


class ProgramKilled(UmbelError):
    """The program was ended: it was silent or ran for too long, or had too many processes.

    Let it pass out of a tool: a read ends as an error, a change as an unknown outcome.
    """


def run_program(  # noqa: PLR0913 - one keyword per property of a program, each with a default
    context: ToolContext,
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] = MappingProxyType({}),
    stdin: bytes = b"",
    limits: ProgramLimits = ProgramLimits(),
    network: bool | None = None,
) -> Finished:
    """Run a program to its end. Its output is progress of the call; no shell is involved.

    When this returns or raises, whatever the reason, nothing that the program started is left.

    Args:
        context: the tool's own; what it calls silence is silence of the program.
        argv: program and arguments.
        cwd: where it runs; by default an empty folder of its own, removed afterwards.
        env: its environment, beside PATH, LANG, HOME and TMPDIR; nothing is inherited.
        stdin: what it reads.
        limits: what it may use.
        network: True: it may use the network; None: it has none where the kernel lets us take it
            away (`Finished.has_network` tells); False: it has none, or is not started.

    Raises:
        ProgramKilled: it was ended.
        ToolFailed: it was not started: no such folder, or a network that cannot be taken away.
    """
    with contextlib.ExitStack() as stack:
        folder = cwd or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="umbel-")))
        given = stack.enter_context(tempfile.TemporaryFile())
        given.write(stdin)
        given.seek(0)
        home = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": str(folder), "TMPDIR": str(folder)}
        world = _World(folder, {**home, **env}, network)
        keeper = _Keeper(argv, world, given.fileno(), limits)
        stack.callback(keeper.end)
        output, total = _read(keeper, context, limits)
    return _finished(keeper.report(), output.decode(errors="replace"), total, limits)


@dataclass(frozen=True, slots=True)
class _World:
    """What surrounds a program."""

    folder: Path
    env: Mapping[str, str]
    network: bool | None


class _Keeper:
    """The process that keeps the program, and the ends of the two pipes to it."""

    def __init__(
        self,
        argv: Sequence[str],
        world: _World,
        stdin: int,
        limits: ProgramLimits,
    ) -> None:
        self._reports, report = os.pipe()
        order = {
            "argv": list(argv),
            "parent": os.getpid(),
            "report": report,
            "processes": limits.processes,
            "limits": _rlimits(limits),
            "network": world.network,
        }
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program; the author's argv
                [sys.executable, "-I", "-S", str(_KEEPER), json.dumps(order)],
                env=world.env,
                cwd=world.folder,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(report,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._reports)
            place = str(world.folder)
            raise ToolFailed(f"{argv[0]!r} cannot be started in {place!r}: {error}") from error
        finally:
            os.close(report)

    def chunks(self) -> Iterator[bytes]:
        """Pieces of output until its end; an empty one each time nothing came for a while."""
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        number = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(number, select.POLLIN)
        while True:
            if not poll.poll(_LOOK_SECONDS * 1000):
                yield b""
            elif chunk := os.read(number, _READ_BYTES):
                yield chunk
            else:
                return

    def end(self) -> None:
        """Kill the program and all that it started, if it has not ended."""
        process = self._process
        try:
            process.terminate()  # to the keeper, who kills the others
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_KILL_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # the kernel then kills the program
                process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def report(self) -> dict[str, Any]:
        """How the program ended, as the keeper saw it."""
        with os.fdopen(self._reports, "rb") as file:
            text = file.read()
        return dict(json.loads(text)) if text else {"ended": "killed"}


def _read(keeper: _Keeper, context: ToolContext, limits: ProgramLimits) -> tuple[bytes, int]:
    """The kept beginning of the output and its whole size.

    Raises:
        ProgramKilled: it was silent or ran for too long; the caller ends it.
    """
    kept, total = bytearray(), 0
    began = heard = time.monotonic()
    for chunk in keeper.chunks():
        now = time.monotonic()
        if chunk:
            heard, total = now, total + len(chunk)
            kept += chunk[: max(0, limits.output_bytes - len(kept))]
            context.progress()
        elif now - heard >= context.stall_seconds:
            raise ProgramKilled(f"The program was silent for {context.stall_seconds:g} s.")
        if limits.seconds is not None and now - began >= limits.seconds:
            raise ProgramKilled(f"The program ran for longer than {limits.seconds:g} s.")
    return bytes(kept), total


def _finished(
    report: Mapping[str, Any], output: str, total: int, limits: ProgramLimits
) -> Finished:
    has_network = bool(report.get("network", True))
    match report:
        case {"ended": "exited", "code": int(code)}:
            return Finished(code, output, total, has_network)
        case {"ended": "network", "why": str(why)}:
            raise ToolFailed(
                f"The program was not started, for its network cannot be taken away: {why}. Grant "
                "it with network=True, or let user namespaces be made on this machine."
            )
        case {"ended": "processes"}:
            raise ProgramKilled(f"The program had more than {limits.processes} processes.")
        case {"ended": str(how)} if how.startswith("signal "):
            number = int(how.removeprefix("signal "))
            return Finished(128 + number, output, total, has_network)
        case _:
            raise ProgramKilled("The program was ended from outside.")


def _rlimits(limits: ProgramLimits) -> dict[str, int]:
    names = {
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_CORE": 0,
    }
    if sys.platform == "linux":  # elsewhere it is not enforced, or refused
        names["RLIMIT_AS"] = limits.memory_bytes
    return names
