"""The command `umbel`. Binds the server packages before anything imports them."""

import sys

from umbel.errors import Misconfigured
from umbel.server_path import bind_server_packages


def main() -> None:
    """Run the command line and exit with one of the codes of `umbel.cli.exits`."""
    try:
        bind_server_packages()
    except Misconfigured as error:
        sys.stderr.write(f"umbel: {error}\n")
        sys.exit(2)
    # Not at the top: it imports server packages and libraries of the `server` extra.
    from umbel.cli.app import run_command_line

    run_command_line(sys.argv[1:])
