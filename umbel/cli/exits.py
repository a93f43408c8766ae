"""Exit codes of `umbel`: stable, documented in docs/cli.md, the same for every command."""

from typing import Final

COMPLETED: Final = 0
"""The command did what was asked; for `umbel run`: the run completed."""
NOT_COMPLETED: Final = 1
"""The run is paused, failed or was cancelled; `db check`: the database is not current."""
USAGE: Final = 2
"""The command line, a setting, or what it names is wrong: change something first."""
UNAVAILABLE: Final = 3
"""A part (database, Redis, a worker) does not answer or ended: trying again may help."""
INTERRUPTED: Final = 130
"""Ctrl-C. Other signals end with 128 and their number."""
OUTPUT_CLOSED: Final = 141
"""Nobody reads the output any more, as in `umbel runs list | head`; 128 and SIGPIPE."""
