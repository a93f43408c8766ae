"""`umbel doctor`: how every part is, and what to do."""

from pathlib import Path

from umbel.errors import Misconfigured


def doctor_command(data: Path | None, *, is_json: bool, with_invariants: bool) -> int:
    """Not there yet."""
    raise Misconfigured("This command is not there yet.")
