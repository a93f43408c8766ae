"""The table of a matrix: per point and action how often it was hit, and what was broken by it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.points_commands import COMMANDS
from tests.chaos.points_ways import ACTIONS, Hurt
from umbel.faults import POINTS

Pair = tuple[str, str]


@dataclass(slots=True)
class Table:
    """Hits and violations of one matrix.

    Args:
        wanted: times each expected pair must be hit.
    """

    wanted: int
    hits: Counter[Pair] = field(default_factory=Counter)
    problems: dict[Pair, list[str]] = field(default_factory=dict)
    general: list[str] = field(default_factory=list)
    """What is broken in a whole database, or in the processes."""
    runs: int = 0
    pauses: int = 0
    slowest_seconds: float = 0.0
    """From the request to rest, whatever was done to the run meanwhile."""
    _expected: set[Pair] = field(default_factory=set)

    def expect(self, hurts: Iterable[Hurt]) -> None:
        """These pairs must be hit."""
        self._expected.update(pair for hurt in hurts for pair in _pairs(hurt))

    def count(self, hurt: Hurt) -> None:
        """It was carried out."""
        self.hits.update(_pairs(hurt))

    def note(self, hurt: Hurt, problems: Sequence[str]) -> None:
        """What the run of a hurt has broken."""
        if problems:
            self.problems.setdefault(next(_pairs(hurt)), []).extend(problems)

    def note_general(self, problems: Sequence[str]) -> None:
        """What cannot be laid at one run's door."""
        self.general.extend(problems)

    def note_seconds(self, seconds: float) -> None:
        """A run has settled."""
        self.runs += 1
        self.slowest_seconds = max(self.slowest_seconds, seconds)

    @property
    def missed(self) -> list[str]:
        """Pairs that were hit less often than wanted."""
        return [
            f"{point} {action}: {self.hits[point, action]} of {self.wanted} hits"
            for point, action in sorted(self._expected)
            if self.hits[point, action] < self.wanted
        ]

    @property
    def violations(self) -> list[str]:
        """Everything that is broken, one line each."""
        lines = [
            f"{action} {point}: {problem}"
            for (point, action), problems in self.problems.items()
            for problem in problems
        ]
        return lines + self.general

    def text(self) -> str:
        """The table for people, in Markdown; a cell is hits, and violations if there are any."""
        wanted = {action for _, action in self._expected}
        actions = [action for action in (*ACTIONS, *COMMANDS) if action in wanted]
        heads = ["point", *actions]
        rows = [[f"`{point}`", *(self._cell((point, a)) for a in actions)] for point in POINTS]
        lines = [heads, ["---"] * len(heads), *rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + f"\n\n{self.summary}"

    @property
    def summary(self) -> str:
        """One line."""
        return (
            f"{sum(self.hits.values())} hits at {len(POINTS)} points in {self.runs} runs, "
            f"{self.pauses} whole workers paused, {len(self.violations)} violations, "
            f"{len(self.missed)} pairs hit too rarely; slowest run {self.slowest_seconds:.0f} s"
        )

    def _cell(self, pair: Pair) -> str:
        broken = len(self.problems.get(pair, ()))
        return f"{self.hits[pair]}{f' ({broken} broken)' if broken else ''}"


def _pairs(hurt: Hurt) -> Iterator[Pair]:
    for order in hurt.orders:
        yield order.point, order.action
