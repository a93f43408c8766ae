"""The processes of a running system: what `umbel run` starts and what the Procfile lists."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from pydantic import SecretStr

from umbel.names import LOOP_QUEUE, TOOLS_QUEUE
from umbel.server_processes import ProcessSpec
from umbel.setting_kinds import OFF
from umbel.settings import Settings
from umbel.settings_sources import CONFIG_FILE, CONFIG_VARIABLE, FILE_ONLY, variable_of

_CELERY: Final = ("-m", "celery", "-A", "umbel.server")
_QUIET: Final = ("--without-gossip", "--without-mingle")
_KEY: Final = "UMBEL_API_KEY"
"""Only step workers ask models; tools run code of others."""
_CAN_BE_OFF: Final = ("metrics_address", "flower_address")
_REPLACED: Final = "OPENAI_API_KEY"
"""Given on under our own name, so that there is one way in."""


def process_specs(settings: Settings, folder: Path) -> list[ProcessSpec]:
    """Step worker, tool worker and beat of these settings, started in a private folder.

    Not here: Python and Celery look for modules where they start, and that may be the workspace,
    in which a model may write `redis.py`.
    """
    environment = worker_environment(settings, os.environ) | {"TMPDIR": str(folder)}
    keyless = {name: value for name, value in environment.items() if name != _KEY}
    commands = _commands(
        steps=str(settings.step_concurrency),
        tools=str(settings.tool_concurrency),
        log_level=settings.log_level,
    )
    return [
        ProcessSpec(
            name,
            (sys.executable, "-P", *command),
            environment if name == "step" else keyless,
            cwd=folder,
        )
        for name, command in commands.items()
    ]


def procfile() -> str:
    """The text of the Procfile: the same commands, for a supervisor with a shell."""
    commands = _commands(
        steps="${UMBEL_STEP_CONCURRENCY:-100}",
        tools="${UMBEL_TOOL_CONCURRENCY:-8}",
        log_level="${UMBEL_LOG_LEVEL:-INFO}",
    )
    return "".join(f"{name}: python {' '.join(words)}\n" for name, words in commands.items())


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


def _commands(*, steps: str, tools: str, log_level: str) -> dict[str, Sequence[str]]:
    level = ("--loglevel", log_level)
    return {
        "step": (
            *(*_CELERY, "worker", "-P", "gevent", "-c", steps, "-Q", LOOP_QUEUE),
            *("-n", "step@%h", *_QUIET, *level),
        ),
        "tool": (
            *(*_CELERY, "worker", "-P", "prefork", "-c", tools, "-Q", TOOLS_QUEUE),
            *("-n", "tool@%h", *_QUIET, *level),
        ),
        # Any number of beats may run: the schedule is in PostgreSQL, so there is no pid file.
        "beat": (*_CELERY, "beat", "--pidfile=", *level),
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
