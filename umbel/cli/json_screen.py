"""`--json`: one object a line on stdout, nothing else."""

import json
from dataclasses import asdict
from typing import IO

from umbel.cli.moments import Moment


class JsonScreen:
    """Writes each moment at once as a JSON object with a `type`."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def show(self, moment: Moment) -> None:
        """Write one line."""
        line = json.dumps({"type": moment.type, **asdict(moment)}, ensure_ascii=False)
        # A lone surrogate cannot be written as UTF-8; as a JSON escape it can.
        self._out.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
        self._out.flush()

    def close(self) -> None:
        """Nothing is left to write."""
