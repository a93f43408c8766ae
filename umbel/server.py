"""The server half for `celery -A umbel.server worker|beat|flower`."""

import os
import sys

from umbel.errors import Misconfigured
from umbel.flower_guard import refuse_open_flower
from umbel.server_path import bind_server_packages

try:
    refuse_open_flower(sys.argv, os.environ)
    bind_server_packages()
    from tasks.app import make_app
    from umbel.settings import load_settings

    app = make_app(load_settings())
except Misconfigured as error:
    # Celery would print a traceback of its own; the message alone says what to change.
    sys.stderr.write(f"umbel: {error}\n")
    sys.exit(2)

__all__ = ["app"]
