"""The class of every Celery task: what goes wrong in one leaves it as the name of a type.

Celery puts the text and the traceback of an error into events, which Flower and anybody at the
broker can read; the text of a library may hold a prompt, a row or a password.
"""

import logging
from typing import Any, Final

from celery import Task

log: Final = logging.getLogger(__name__)


class TaskFailed(Exception):
    """A task ended in an error; all it tells is the name of that error's type."""


class QuietTask(Task):  # type: ignore[type-arg]  # Celery's own class takes no parameters
    """Logs what goes wrong in a body, and raises `TaskFailed` instead."""

    Request = "tasks.inspect_guard:QuietRequest"
    throws = (TaskFailed,)  # expected: Celery says it in one line, without a traceback

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        """What the body returns.

        Raises:
            TaskFailed: the body raised; the error itself is in the log.
        """
        try:
            return self.run(*args, **kwargs)
        except Exception as error:  # whatever a library raises must not get into an event
            log.exception("task ended in an error", extra={"task": self.name})
            kind = type(error).__name__
        # Out here it has no context: Celery would send that along.
        raise TaskFailed(kind)
