"""The processes of a running system: one list for `umbel run`, `umbel up` and the Procfile."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from pydantic import SecretStr

from umbel.names import CONTROL_QUEUE, LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE
from umbel.server_processes import ProcessSpec
from umbel.setting_kinds import OFF
from umbel.settings import Settings
from umbel.settings_sources import CONFIG_FILE, CONFIG_VARIABLE, FILE_ONLY, variable_of

_CELERY: Final = ("-m", "celery", "-A", "umbel.server", "--quiet")
"""Without banners: every line is one of the log."""
_QUIET: Final = ("--without-gossip", "--without-mingle")
_SECRETS: Final = {"UMBEL_API_KEY": ("step", "control"), "UMBEL_FLOWER_AUTH": ("flower",)}
"""Variables for some commands alone: tools run code of others, and these ask models."""
_ROOT_WARNING: Final = "You're running the worker with superuser privileges"
_OF_ONE_RUN: Final = ("step", "tool", "beat")
_OF_A_SYSTEM: Final = {
    "step": "step",
    "tool": "tool",
    "control": "control",
    "beat.1": "beat",
    "beat.2": "beat",
    "flower": "flower",
}
"""Processes and the commands they run."""
_CAN_BE_OFF: Final = ("metrics_address", "flower_address")
_REPLACED: Final = "OPENAI_API_KEY"
"""Given on under our own name, so that there is one way in."""


def process_specs(settings: Settings, folder: Path) -> list[ProcessSpec]:
    """Step worker, tool worker and beat of these settings, started in a private folder."""
    return _specs(settings, folder, {name: name for name in _OF_ONE_RUN})


def system_specs(settings: Settings, folder: Path) -> list[ProcessSpec]:
    """Every process of a whole system: workers, two beats, and Flower unless it is off.

    Whoever starts it says once whether it runs as root; Celery's own warning would come per worker.
    """
    is_off = settings.flower_address is None
    chosen = {name: run for name, run in _OF_A_SYSTEM.items() if not (is_off and run == "flower")}
    return _specs(settings, folder, chosen, options=("-W", f"ignore:{_ROOT_WARNING}"))


def procfile() -> str:
    """The text of the Procfile: the same commands, for a supervisor with a shell."""
    commands = _commands(
        steps="${UMBEL_STEP_CONCURRENCY:-100}",
        tools="${UMBEL_TOOL_CONCURRENCY:-8}",
        controls="${UMBEL_CONTROL_CONCURRENCY:-2}",
        log_level="${UMBEL_LOG_LEVEL:-INFO}",
    )
    return "".join(f"{name}: python {' '.join(words)}\n" for name, words in commands.items())


def shown_command(name: str, settings: Settings) -> str:
    """The command of that name with these settings, as a person would type it."""
    _, *words = _commands_of(settings)[name]
    return " ".join(words)


def worker_environment(settings: Settings, inherited: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a worker: ours, with these settings instead of ours.

    Tables (`[agents]`, `[models]`) come from the same file in the same folder.
    """
    fields = type(settings).model_fields
    replaced = {_REPLACED, *(variable_of(name) for name in fields)}
    kept = {name: value for name, value in inherited.items() if name not in replaced}
    spelled = {
        variable_of(name): _spelled(getattr(settings, name))
        for name in settings.model_fields_set
        if name not in FILE_ONLY and (getattr(settings, name) is not None or name in _CAN_BE_OFF)
    }
    return {**kept, **spelled, **_anchored(inherited), "PYTHONUNBUFFERED": "1"}


def _specs(
    settings: Settings, folder: Path, chosen: Mapping[str, str], options: Sequence[str] = ()
) -> list[ProcessSpec]:
    """The chosen processes, each with what its command may know.

    Started in `folder`: Python and Celery look for modules where they start, and where the person
    is may be the workspace, in which a model may write `redis.py`.
    """
    everything = worker_environment(settings, os.environ) | {"TMPDIR": str(folder)}
    commands = _commands_of(settings)
    return [
        ProcessSpec(
            name,
            (sys.executable, "-P", *options, *commands[run], *_node(name, run)),
            {key: value for key, value in everything.items() if run in _SECRETS.get(key, (run,))},
            cwd=folder,
        )
        for name, run in chosen.items()
    ]


def _node(name: str, run: str) -> tuple[str, ...]:
    """Of two beats each answers `celery inspect` under a name of its own."""
    return ("-n", f"{name}@%h") if run == "beat" and name != run else ()


def _anchored(inherited: Mapping[str, str]) -> dict[str, str]:
    """What depends on the folder a command is given in, made independent of it."""
    anchored: dict[str, str] = {}
    if path := inherited.get("PYTHONPATH"):
        anchored["PYTHONPATH"] = os.pathsep.join(
            str(Path(entry or ".").resolve()) for entry in path.split(os.pathsep)
        )
    config = Path(inherited.get(CONFIG_VARIABLE) or CONFIG_FILE).resolve()
    if config.is_file():
        anchored[CONFIG_VARIABLE] = str(config)
    return anchored


def _commands_of(settings: Settings) -> dict[str, Sequence[str]]:
    return _commands(
        steps=str(settings.step_concurrency),
        tools=str(settings.tool_concurrency),
        controls=str(settings.control_concurrency),
        log_level=settings.log_level,
    )


def _commands(*, steps: str, tools: str, controls: str, log_level: str) -> dict[str, Sequence[str]]:
    level = ("--loglevel", log_level)

    def worker(name: str, pool: str, concurrency: str, queue: str) -> tuple[str, ...]:
        pool_options = ("-P", pool, "-c", concurrency, "-Q", queue)
        return (*_CELERY, "worker", *pool_options, "-n", f"{name}@%h", *_QUIET, *level)

    return {
        "step": worker("step", "gevent", steps, LOOP_QUEUE),
        "tool": worker("tool", "prefork", tools, TOOLS_QUEUE),
        "control": worker("control", "prefork", controls, f"{CONTROL_QUEUE},{SUSPECT_QUEUE}"),
        # Any number of beats may run: the schedule is in PostgreSQL, so there is no pid file.
        "beat": (*_CELERY, "beat", "--pidfile=", *level),
        "flower": ("-m", "umbel.cli", "flower"),
    }


def _spelled(value: Any) -> str:
    match value:
        case None:
            return OFF
        case SecretStr():
            return value.get_secret_value()
        case tuple():
            return ",".join(map(str, cast("Iterable[object]", value)))  # of no known element type
        case _:
            return str(value)
