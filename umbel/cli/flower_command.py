"""`umbel flower`: Flower with a password, on this machine only."""

from umbel.errors import Misconfigured


def flower_command() -> int:
    """Not there yet."""
    raise Misconfigured("This command is not there yet.")
