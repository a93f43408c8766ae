"""`umbel up`: the whole system under one command."""

import sys
import time
from pathlib import Path

from umbel.cli.ending import exit_code_of, importing, say
from umbel.cli.json_lines import write_json
from umbel.cli.running_system import refuse_running
from umbel.cli.up_happenings import SystemFailed
from umbel.cli.up_screen import JsonWriter, TextWriter, as_facts
from umbel.errors import UmbelError
from umbel.settings import load_settings


def up_command(data: Path | None, *, is_json: bool) -> int:
    """Run the system until it is asked to end, and return the exit code."""
    began = time.monotonic()
    try:
        refuse_running(data)
        settings = load_settings()
        with importing():  # heavy, a second on a small machine
            from umbel.cli.up_system import UpSystem

        system = UpSystem(settings, data, began=began)
        system.run(JsonWriter(sys.stdout) if is_json else TextWriter(sys.stdout))
    except (UmbelError, KeyboardInterrupt) as error:
        code = exit_code_of(error)
        if isinstance(error, UmbelError):
            say(str(error))
            if is_json:
                write_json(sys.stdout, as_facts(SystemFailed(message=str(error), exit_code=code)))
        return code
