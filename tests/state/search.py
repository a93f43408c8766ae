"""Breadth-first search through every moment, and from every moment a way to rest.

Two moments that differ only by the names of the two processes count as one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.state.approval_verbs import is_decidable
from tests.state.moves import OUTSIDE, Move
from tests.state.others import fault_moves, owner_moves, sweeper_moves, time_moves
from tests.state.record import SETTLED, Rows, Run
from tests.state.rules import broken_by, broken_in
from tests.state.system import Scenario, System
from tests.state.workers import work_moves
from tests.state.world import IDLE, Mind, Moment, mirrored, tidied

Observer = Callable[[Moment], None]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to."""

    states: int
    moves: int
    broken: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.broken is None:
            return f"{self.states:,} states, {self.moves:,} moves: all rules hold"
        lines = [f"{at:3}. {line}" for at, line in enumerate(self.trace, start=1)]
        head = f"{self.broken} (after {self.states:,} states; shortest way: {len(lines)} moves)"
        return "\n".join([head, *lines])


@dataclass(slots=True)
class Search:
    """One search of one scenario."""

    scenario: Scenario
    system: System = field(default_factory=System)
    observe: Observer | None = None
    """Shown every moment once."""
    _index: dict[Moment, int] = field(default_factory=dict)
    _moments: list[Moment] = field(default_factory=list)
    _came: list[tuple[int, str, int, bool]] = field(default_factory=list)
    """From which moment, by what, of whom, and whether the processes were exchanged."""
    _backwards: list[list[int]] = field(default_factory=list)
    _ranks: dict[tuple[Mind, bool], int] = field(default_factory=dict)
    _moves: int = 0

    def run(self) -> Found:
        """Everything that is reachable, or the shortest way to the first broken rule."""
        limit = self.scenario.policy.tool_call_limit
        start = Moment(Rows(Run(call_limit=limit)), ((1, 0),), self.scenario.budget)
        self._reach(start, -1, "", OUTSIDE, is_live=False)
        at = 0
        while at < len(self._moments):
            moment = self._moments[at]
            if self.observe is not None:
                self.observe(moment)
            for move in self._moves_of(moment):
                self._moves += 1
                after = move.after
                broken = broken_by(moment, move)
                # The rules read nothing else, and many moves leave these alone.
                if not broken and (after.rows is not moment.rows or after.sent is not moment.sent):
                    broken = broken_in(after)
                if broken is not None:
                    return self._failed(broken, at, move.says, move.who)
                self._reach(after, at, move.says, move.who, is_live=not move.fault)
            at += 1
        return self._dead_end() or Found(len(self._moments), self._moves)

    def _moves_of(self, moment: Moment) -> Iterator[Move]:
        for move in work_moves(moment, self.scenario, self.system):
            yield from self._affordable(move)
        yield from sweeper_moves(moment, self.scenario, self.system)
        yield from time_moves(moment)
        for move in owner_moves(moment, self.scenario, self.system):
            yield from self._affordable(move)
        for move in fault_moves(moment):
            yield from self._affordable(move)

    def _affordable(self, move: Move) -> Iterator[Move]:
        if not move.fault:
            yield move
            return
        left = getattr(move.after.budget, move.fault)
        if left:
            budget = move.after.budget._replace(**{move.fault: left - 1})
            yield move._replace(after=move.after._replace(budget=budget))

    def _reach(self, moment: Moment, came: int, says: str, who: int, *, is_live: bool) -> None:
        moment = tidied(moment)
        is_exchanged = self._rank(moment, 0) > self._rank(moment, 1)
        if is_exchanged:
            moment = mirrored(moment)
        known = self._index.get(moment)
        if known is None:
            known = self._index[moment] = len(self._moments)
            self._moments.append(moment)
            self._came.append((came, says, who, is_exchanged))
            self._backwards.append([])
        if is_live:
            self._backwards[known].append(came)

    def _rank(self, moment: Moment, slot: int) -> int:
        key = (moment.minds[slot], moment.silent[slot])
        return self._ranks.setdefault(key, len(self._ranks))

    def _failed(self, broken: str, at: int, says: str, who: int) -> Found:
        steps = [(says, who)]
        exchanged: list[bool] = []
        while at > 0:
            came, says, who, is_exchanged = self._came[at]
            steps.append((says, who))
            exchanged.append(is_exchanged)
            at = came
        steps.reverse()
        exchanged.reverse()
        lines, is_other = [], False
        for (says, who), is_exchanged in zip(steps, [*exchanged, False], strict=True):
            lines.append(says if who == OUTSIDE else f"worker {'AB'[who ^ is_other]} {says}")
            is_other ^= is_exchanged
        return Found(len(self._moments), self._moves, broken, tuple(lines))

    def _dead_end(self) -> Found | None:
        """The first moment from which nothing leads to rest without a fault or a person."""
        reaches = [_is_at_rest(moment) for moment in self._moments]
        waiting = [at for at, is_rest in enumerate(reaches) if is_rest]
        while waiting:
            for came in self._backwards[waiting.pop()]:
                if not reaches[came]:
                    reaches[came] = True
                    waiting.append(came)
        if all(reaches):
            return None
        at = reaches.index(False)
        run = self._moments[at].rows.run
        stands = f"and there it stands: {run.status}, work: {run.work}"
        return self._failed("a dead end: nothing leads on", at, stands, OUTSIDE)


def _is_at_rest(moment: Moment) -> bool:
    rows = moment.rows
    waits_for_owner = any(is_decidable(rows, call) for call in rows.calls)
    return (rows.run.status in SETTLED or waits_for_owner) and moment.minds == (IDLE, IDLE)
