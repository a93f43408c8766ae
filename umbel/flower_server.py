"""Flower, closed and read-only: started in this process, so that no password is on a command line.

Not through Celery's `flower` command: that one runs a `flowerconfig.py` of the folder it is started
in, splits a password at a comma, and leaves out of authentication whatever forgets to ask for it.
"""

# Flower ships no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import hmac
import logging
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final, cast

from celery import Celery
from flower.app import Flower  # type: ignore[import-untyped]
from flower.events import Events  # type: ignore[import-untyped]
from flower.options import default_options as options  # type: ignore[import-untyped]
from flower.urls import settings as web_settings  # type: ignore[import-untyped]
from tornado.httputil import HTTPServerRequest
from tornado.ioloop import IOLoop
from tornado.web import RequestHandler

from umbel.errors import Misconfigured
from umbel.flower import format_task, shown_event

COLUMNS: Final = "name,uuid,state,args,kwargs,result,received,started,runtime,worker"
OPEN_PATHS: Final = ("/metrics", "/healthcheck")
"""What monitoring asks for without a password; it tells names of tasks and workers."""

_NO_ANSWER: Final = "Inspect method %s failed"
_MOST_TASKS: Final = 20_000
_PURGE_SECONDS: Final = 60
_INSPECT_MILLISECONDS: Final = 2_000.0


class ClosedFlower(Flower):  # type: ignore[misc]
    """Flower whose every path but two asks for the password before anything looks at the request.

    Args:
        app: an application at the broker; it needs no tasks.
        auth: `user:password`.
    """

    def __init__(self, app: Celery, auth: str) -> None:
        _set_options(auth)
        loop = IOLoop.current()
        self._expected = b"Basic " + b64encode(auth.encode())
        self._questions = _Questions()
        logging.getLogger("flower.inspector").addFilter(self._questions)
        super().__init__(
            options=options,
            capp=app,
            events=ShownEvents(app, loop, max_tasks_in_memory=_MOST_TASKS),
            io_loop=loop,
            **web_settings,
        )

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Tornado's choice of who answers: for a stranger it is the refusal."""
        if request.path in OPEN_PATHS or self._knows(request):
            return super().find_handler(request, **kwargs)
        return self.get_handler_delegate(request, _Refusal)

    def update_workers(self, workername: str | None = None) -> Any:
        """Flower's question to one worker or all, remembering whether anybody was there."""
        events = cast("Any", self).events  # of a library without types
        self._questions.are_to_somebody = workername is not None or bool(events.state.workers)
        return cast("Any", super()).update_workers(workername)

    def serve(self, host: str, port: int) -> None:
        """Listen, and answer until the process is asked to end.

        Raises:
            Misconfigured: the address cannot be had.
        """
        options.address, options.port = host, port
        try:
            self.start_http_server()
        except OSError as error:
            raise Misconfigured(
                f"Flower cannot listen at {host}:{port}: {error.strerror or error}. Set "
                "UMBEL_FLOWER_ADDRESS to a free address of this machine."
            ) from error
        try:
            self.start()
        finally:
            self.stop()

    def _knows(self, request: HTTPServerRequest) -> bool:
        given = request.headers.get("Authorization", "")
        return hmac.compare_digest(given.encode(), self._expected)


class ShownEvents(Events):  # type: ignore[misc]
    """Takes in what may be shown: Flower's API and search do not use its hook for tasks."""

    def on_event(self, event: Mapping[str, object]) -> None:
        """One event from the broker."""
        super().on_event(shown_event(event))


class _Questions(logging.Filter):
    """Leaves out the warnings about questions that nobody was there to answer.

    Flower asks all workers at its start, mostly before the first of them is up.
    """

    are_to_somebody = True

    def filter(self, record: logging.LogRecord) -> bool:
        return self.are_to_somebody or record.msg != _NO_ANSWER


class _Refusal(RequestHandler):
    """Asks for the password, whatever was asked for and however."""

    def check_xsrf_cookie(self) -> None:
        """Nothing to protect: nothing is done."""

    def prepare(self) -> None:
        self.set_status(401)
        self.set_header("WWW-Authenticate", 'Basic realm="flower"')
        self.finish("Flower asks for a user and a password.\n")


def _set_options(auth: str) -> None:
    options.basic_auth = [auth]
    options.read_only = True
    options.format_task = format_task
    options.tasks_columns = COLUMNS
    options.max_tasks = _MOST_TASKS
    options.purge_offline_workers = _PURGE_SECONDS
    options.inspect_timeout = _INSPECT_MILLISECONDS
    access_log = logging.getLogger("tornado.access")
    access_log.addHandler(logging.NullHandler())
    access_log.propagate = False
