"""When a process that died is started again: pure, so that every case can be shown in a test."""

from dataclasses import dataclass
from typing import Final

REFUSED: Final = 2
"""Exit code of a process that cannot work as it is configured; trying again cannot help it."""


@dataclass(frozen=True, slots=True)
class Past:
    """What a process has been through since it last lived long enough."""

    deaths: int = 0
    refusals: int = 0
    """How often in a row it ended with `REFUSED`."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Start it again after a pause."""

    after_seconds: float
    past: Past


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It will not start, however often it is tried: end everything and say why."""

    refusals: int


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Nearly at once, then ever later, for as long as it takes."""

    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 15.0
    settled_seconds: float = 60.0
    """A process that has lived so long starts with a clean past."""
    most_refusals: int = 3

    def after_end(self, past: Past, *, exit_code: int, lived_seconds: float) -> Restart | GiveUp:
        """What to do about an end that nobody asked for."""
        if lived_seconds >= self.settled_seconds:
            past = Past()
        refusals = past.refusals + 1 if exit_code == REFUSED else 0
        if refusals >= self.most_refusals:
            return GiveUp(refusals)
        # The exponent is bounded: a float has no room for two to the number of deaths of a week.
        pause = self.first_pause_seconds * 2.0 ** min(past.deaths, 30)
        return Restart(min(pause, self.longest_pause_seconds), Past(past.deaths + 1, refusals))
