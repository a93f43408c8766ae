"""Findings for people, a line and a remedy each, and for programs, one object a line."""

import sys
from collections.abc import Iterable, Mapping
from typing import IO, Final, cast

from rich.text import Text

from umbel.cli.doctor.finding import Finding, State
from umbel.cli.json_lines import write_json
from umbel.cli.plain_output import PlainConsole

_STYLES: Final[Mapping[State, str]] = {
    "ok": "green",
    "warning": "yellow",
    "problem": "bold red",
    "skipped": "dim",
}
_PART_WIDTH: Final = 11
_STATE_WIDTH: Final = 8


class TextRendering:
    """Lines on a terminal or in a file."""

    def __init__(self, out: IO[str], *, is_verbose: bool) -> None:
        self._console = PlainConsole(out)
        self._is_verbose = is_verbose

    def show(self, finding: Finding) -> None:
        """One finding, as soon as it is there."""
        line = Text(f"{finding.part:<{_PART_WIDTH}}")
        line.append(f"{finding.state:<{_STATE_WIDTH}}", style=_STYLES[finding.state])
        line.append(f" {finding.found}")
        self._say(line)
        if finding.remedy is not None and finding.state != "skipped":
            self._say(Text(f"{'':<{_PART_WIDTH}}{'→':>{_STATE_WIDTH}} {finding.remedy}"))
        if self._is_verbose:
            self._show_settings(finding.facts.get("settings"))

    def end(self, findings: Iterable[Finding]) -> None:
        """How many of each."""
        states = [finding.state for finding in findings]
        counts = [f"{states.count(state)} {state}" for state in _STYLES if state in states]
        self._say(Text(", ".join(counts)))

    def _show_settings(self, settings: object) -> None:
        rows = cast("list[Mapping[str, str]]", settings or [])  # put there by the settings check
        for row in rows:
            value = f"{row['name']} = {row['value']}"
            self._say(Text(f"{'':<{_PART_WIDTH}}{value}  ({row['origin']})", style="dim"))

    def _say(self, line: Text) -> None:
        # Not wrapped: a remedy is copied, and a line is what `grep` finds.
        self._console.print(line, soft_wrap=True)


class JsonRendering:
    """One object a line."""

    def __init__(self, out: IO[str] = sys.stdout) -> None:
        self._out = out

    def show(self, finding: Finding) -> None:
        """One finding."""
        named = {
            "part": finding.part,
            "state": finding.state,
            "found": finding.found,
            "remedy": finding.remedy,
        }
        write_json(self._out, {**named, **finding.facts})

    def end(self, findings: Iterable[Finding]) -> None:
        """Nothing: the exit code says it."""
