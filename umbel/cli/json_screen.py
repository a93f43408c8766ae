"""`umbel run --json`: one object a line on stdout, nothing else."""

from dataclasses import asdict
from typing import IO

from umbel.cli.json_lines import write_json
from umbel.cli.moments import Moment


class JsonScreen:
    """Writes each moment at once as a JSON object with a `type`."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def show(self, moment: Moment) -> None:
        """Write one line."""
        write_json(self._out, {"type": moment.type, **asdict(moment)})

    def close(self) -> None:
        """Nothing is left to write."""
