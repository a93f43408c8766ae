"""`umbel up`: the whole system under one command."""

from pathlib import Path

from umbel.errors import Misconfigured


def up_command(data: Path | None, *, is_json: bool) -> int:
    """Not there yet."""
    raise Misconfigured("This command is not there yet.")
