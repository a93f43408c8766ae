"""What the world outside does: a pure function of the seed, the run, the step and the call."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Behaviour = Literal["ok", "slow", "refused", "error_after", "answer_lost"]
"""Of a tool. `refused` certainly changes nothing; the last two have done it, and nobody hears."""

MODEL_PREFIX: Final = "chaos-"
READ: Final = "look"
REPEATABLE: Final = "note"
CHANGES: Final = ("change", "alter")
"""Two changes: the first is given up after a short silence, the second after a long one."""
TOOLS: Final = (READ, REPEATABLE, *CHANGES)
_TOOL_WEIGHTS: Final = (4, 2, 3, 2)
_OF_CHANGES: Final[Mapping[Behaviour, int]] = {
    "ok": 66,
    "slow": 18,
    "refused": 4,
    "error_after": 6,
    "answer_lost": 6,
}
_OF_PLAIN_CHANGES: Final[Mapping[Behaviour, int]] = {"ok": 78, "slow": 18, "refused": 4}
_OF_READS: Final[Mapping[Behaviour, int]] = {"ok": 75, "slow": 20, "error_after": 5}


@dataclass(frozen=True, slots=True)
class Script:
    """One seed's world; two of the same seed are the same world."""

    seed: int
    hides_outcomes: bool = True
    """Whether changes may be done without a word: then their siblings start, or not, by chance."""

    def steps_of(self, run: int) -> int:
        """Steps with calls before the model answers."""
        return self._chance(run).randint(1, 3)

    def turn(self, run: int, step: int) -> dict[str, Any]:
        """What the model says at a step, in the form of `tests.cases.wire.turn_chunks`."""
        usage = {"input": 50 + 10 * step, "output": 10 + run % 7}
        if step > self.steps_of(run):
            return {"text": f"Run {run} is done, it says: {'so it is. ' * 5}", "usage": usage}
        chance = self._chance(run, step)
        tools = chance.choices(TOOLS, _TOOL_WEIGHTS, k=chance.randint(1, 3))
        calls = [
            {"id": f"c{place}", "name": tool, "arguments": {"key": f"{run}.{step}.{place}"}}
            for place, tool in enumerate(tools, start=1)
        ]
        return {"text": f"Step {step}.", "tool_calls": calls, "usage": usage}

    def asks_first(self, run: int) -> bool:
        """Whether the changes of a run wait for its owner's approval: of one in four."""
        return self._chance(run, "asks").random() < 0.25

    def is_allowed(self, key: str) -> bool:
        """What the owner decides upon a change: yes to four in five."""
        return self._chance(key, "allowed").random() < 0.8

    def thinking_seconds(self, run: int, step: int) -> float:
        """How long the model takes; most of it while its answer is on its way."""
        return self._chance(run, step, "model").uniform(0.05, 0.5)

    def behaviour(self, tool: str, key: str) -> Behaviour:
        """What comes of a call."""
        of_changes = _OF_CHANGES if self.hides_outcomes else _OF_PLAIN_CHANGES
        table = of_changes if tool in CHANGES else _OF_READS
        return self._chance(tool, key).choices(list(table), list(table.values()))[0]

    def working_seconds(self, key: str) -> float:
        """How long a slow tool works."""
        return self._chance("slow", key).uniform(0.2, 1.0)

    def _chance(self, *about: object) -> random.Random:
        return random.Random(f"{self.seed} {about}")


def model_of(run: int) -> str:
    """The model of a run: its name says which run asks."""
    return f"{MODEL_PREFIX}{run}"


def request_of(run: int) -> str:
    """What its owner asks for."""
    return f"Carry out number {run}."
