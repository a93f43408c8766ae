"""What a person sees of `umbel run`, from the first line to the last word."""

import sys
import time
from pathlib import Path
from typing import Final

from umbel.cli.ending import exit_code_of, importing, is_silent, say
from umbel.cli.json_screen import JsonScreen
from umbel.cli.moments import Progress, Stopped
from umbel.cli.request_text import request_text
from umbel.cli.text_screen import TextScreen
from umbel.errors import UmbelError
from umbel.settings import load_settings

_REQUEST_CHARS: Final = 200


def run_session(
    request: str,
    *,
    agent: str,
    model: str | None,
    workspace: Path,
    is_json: bool,
    keep: bool,
) -> int:
    """Carry one request through and return the exit code; every error is said here."""
    try:
        settings, text = load_settings(), request_text(request)
    except UmbelError as error:
        if is_json:
            stopped = Stopped(message=str(error), exit_code=exit_code_of(error))
            JsonScreen(sys.stdout).show(stopped)
        raise
    began = time.monotonic()
    screen = JsonScreen(sys.stdout) if is_json else TextScreen(sys.stdout, began=began)
    command = None
    try:
        screen.show(Progress(topic="request", text=text[:_REQUEST_CHARS]))
        # Heavy, a second on a small machine: the first line must not wait for it.
        with importing():
            from umbel.cli.run_command import RunCommand, RunOptions

        command = RunCommand(
            settings,
            RunOptions(text, agent, model, workspace, keep, began),
            screen,
        )
        return command.carry_out()
    except (UmbelError, KeyboardInterrupt) as error:
        code = exit_code_of(error)
        if is_silent(error):
            return code
        accepted = command.accepted if command is not None else None
        message = str(error) or "interrupted"
        if accepted is not None and command is not None:
            message += f"\nThe run {accepted.run_id} is not finished; {command.how_to_look()}."
        if is_json:
            screen.show(Stopped(message=message, exit_code=code))
        screen.close()
        say(message)
        return code
    finally:
        screen.close()
