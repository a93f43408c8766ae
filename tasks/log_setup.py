"""Sets up the log of workers, beat and Flower alike: one handler, one form, no secrets."""

import logging
import os
import socket
import sys
from collections.abc import Mapping
from logging.handlers import WatchedFileHandler
from typing import Any, Final

import click
from billiard.util import get_logger as pool_logger
from celery import signals
from click.core import ParameterSource

from tasks.log_celery import about_arguments
from tasks.log_format import LineFormatter
from umbel.log_context import bind, clear
from umbel.redaction import Redactor, url_secrets
from umbel.settings import Settings

_UID: Final = "umbel.logging"
_LOGGING_COMMANDS: Final = ("worker", "beat", "flower")


class LogSetup:
    """The log of one process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process = "umbel"

    def start(self, command: str) -> None:
        """Set up at once, for Celery does so late, and Flower has no signal for it at all."""
        if command in _LOGGING_COMMANDS:
            self._process = f"{command}@{socket.gethostname()}"
            self.install(self._level_of_settings)

    def name_worker(self, hostname: str) -> None:
        """From here on lines tell the name under which Celery knows this worker."""
        self._process = hostname
        self.install(self._level_of_settings)

    def install(self, level: int, path: str | None = None) -> None:
        """Make one handler, on standard error or a file, the only one of this process."""
        # What cannot be written is lost; the report of it would print arguments as they are.
        logging.raiseExceptions = False
        handler = WatchedFileHandler(path, encoding="utf-8") if path else logging.StreamHandler()
        handler.setFormatter(
            LineFormatter(
                process=self._process,
                redact=Redactor(secrets_of(self._settings, os.environ)),
                is_json=self._is_json(has_file=path is not None),
            )
        )
        handler.setLevel(level)
        root = logging.getLogger()
        root.handlers[:] = [handler]
        root.setLevel(level)
        # The pool's own: it does not propagate, and says which child was killed by what.
        pool = pool_logger()
        pool.handlers[:] = [handler]
        pool.setLevel(max(level, logging.ERROR))
        logging.captureWarnings(capture=True)

    def level(self, given: int) -> int:
        """Celery's --loglevel if it was given, else the setting."""
        context = click.get_current_context(silent=True)
        source = context.get_parameter_source("loglevel") if context is not None else None
        if source in (None, ParameterSource.DEFAULT):
            return self._level_of_settings
        return given

    @property
    def _level_of_settings(self) -> int:
        return logging.getLevelNamesMapping()[self._settings.log_level]

    def _is_json(self, *, has_file: bool) -> bool:
        match self._settings.log_format:
            case "auto":
                return has_file or not sys.stderr.isatty()
            case chosen:
                return chosen == "json"


def secrets_of(settings: Settings, environment: Mapping[str, str]) -> list[str]:
    """Every value that no line may hold."""
    keys = [key.get_secret_value() for key in (settings.api_key, settings.flower_auth) if key]
    passwords = [key.partition(":")[2] for key in keys]
    named = [
        environment.get("OPENAI_API_KEY", ""),
        environment.get("OTEL_EXPORTER_OTLP_HEADERS", ""),
        environment.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS", ""),
    ]
    urls = (settings.database_url, settings.redis_url, settings.model_base_url)
    return [*keys, *passwords, *named, *(secret for url in urls for secret in url_secrets(url))]


def connect_logging(settings: Settings) -> LogSetup:
    """Tie the log to Celery's signals: its set-up, and what the lines of a task are about."""
    setup = LogSetup(settings)
    setup.start(_command())

    def on_worker_named(sender: str, **_: object) -> None:
        setup.name_worker(sender)

    def on_setup(loglevel: int, logfile: str | None = None, **_: object) -> None:
        setup.install(setup.level(loglevel), logfile)

    def on_task(task: Any, args: object = None, **_: object) -> None:
        clear()
        bind(**about_arguments(task.name, args))

    def on_task_end(**_: object) -> None:
        clear()

    connections = (
        (signals.celeryd_init, on_worker_named),
        (signals.setup_logging, on_setup),
        (signals.task_prerun, on_task),
        (signals.task_postrun, on_task_end),
    )
    for signal, receiver in connections:
        signal.connect(receiver, weak=False, dispatch_uid=_UID)
    return setup


def _command() -> str:
    """What Celery's command line was asked for: `worker`, `beat`, `flower`; "" elsewhere."""
    context = click.get_current_context(silent=True)
    return (context.invoked_subcommand or context.info_name or "") if context is not None else ""
