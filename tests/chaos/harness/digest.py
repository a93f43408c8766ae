"""The same runs with and without a Redis that is emptied again and again: the same results.

Only the order may differ, so results are compared as sets of lines, and shown as one hash.
"""

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from models.database import Database
from tests.chaos.harness.scene import Scene, a_scene
from tests.chaos.harness.script import Script
from tests.worker_processes import PATIENT_CLOCKS

Say = Callable[[str], None]

WIPE_SECONDS: Final = 10.0
_IN_FLIGHT: Final = 24
_LONGEST_SETTLE_SECONDS: Final = 180.0
_SHOWN_DIFFERENCES: Final = 10
_LINES: Final = """
SELECT concat_ws(' ', 'decision', s.model, m.step, m.decision) AS line
FROM model_calls m JOIN run_specs s ON s.run_id = m.run_id WHERE m.decision IS NOT NULL
UNION ALL
SELECT concat_ws(' ', 'call', s.model, c.step, c.position, c.tool, c.args_text, c.state)
FROM calls c JOIN run_specs s ON s.run_id = c.run_id
UNION ALL
SELECT concat_ws(' ', 'receipt', s.model, c.step, c.position, x.outcome, x.verified)
FROM receipts x JOIN calls c ON c.id = x.call_id JOIN run_specs s ON s.run_id = c.run_id
UNION ALL
SELECT concat_ws(' ', 'run', s.model, r.status, r.reason, r.answer)
FROM runs r JOIN run_specs s ON s.run_id = r.id
"""


@dataclass(frozen=True, slots=True)
class Leg:
    """One of the two ways."""

    runs: int
    seconds: float
    """From the first request until every run had settled."""
    wipes: int
    lines: frozenset[str]

    @property
    def digest(self) -> str:
        """Of decisions, calls, receipts and answers, whatever their order."""
        return hashlib.sha256("\n".join(sorted(self.lines)).encode()).hexdigest()

    @property
    def runs_per_second(self) -> float:
        """Throughput."""
        return self.runs / self.seconds

    def __str__(self) -> str:
        return (
            f"{self.wipes:3} wipes: {self.runs} runs in {self.seconds:.0f} s, "
            f"{self.runs_per_second:.2f} runs/s, {len(self.lines)} lines, digest {self.digest[:16]}"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both, and what differs."""

    calm: Leg
    wiped: Leg

    @property
    def differences(self) -> list[str]:
        """Lines that only one of them has, the first few."""
        only = sorted(
            [f"only without wipes: {line}" for line in self.calm.lines - self.wiped.lines]
            + [f"only with wipes: {line}" for line in self.wiped.lines - self.calm.lines]
        )
        return only[:_SHOWN_DIFFERENCES]

    @property
    def throughput_ratio(self) -> float:
        """Of the wiped one to the calm one."""
        return self.wiped.runs_per_second / self.calm.runs_per_second


def compare(seed: int, seconds: float, say: Say) -> Comparison:
    """Hand in runs for so long, then the same ones again while Redis is emptied.

    Raises:
        AssertionError: runs did not settle.
    """
    script = Script(seed, hides_outcomes=False)
    say("without wipes")
    with a_scene(script, PATIENT_CLOCKS) as scene:
        calm = _carry(scene, lambda spent, _entered: spent < seconds)
        say(str(calm))
    say(f"emptying Redis every {WIPE_SECONDS:g} s")
    with a_scene(script, PATIENT_CLOCKS) as scene:
        is_over = threading.Event()
        wipes: list[float] = []

        def wipe() -> None:
            while not is_over.wait(WIPE_SECONDS):
                scene.servers.empty_valkey()
                wipes.append(time.monotonic())

        wiping = threading.Thread(target=wipe, daemon=True)
        wiping.start()
        try:
            wiped = _carry(scene, lambda _spent, entered: entered < calm.runs, wipes)
        finally:
            is_over.set()
            wiping.join()
        say(str(wiped))
    return Comparison(calm, wiped)


def _carry(
    scene: Scene, wants_more: Callable[[float, int], bool], wipes: list[float] | None = None
) -> Leg:
    owners, pause = scene.owners, threading.Event()
    began = time.monotonic()
    while wants_more(time.monotonic() - began, owners.entered):
        if (owners.unsettled() or 0) < _IN_FLIGHT:
            owners.enter()
        else:
            pause.wait(0.02)
        owners.decide(everywhere=True)
    deadline = time.monotonic() + _LONGEST_SETTLE_SECONDS
    while owners.unsettled() != 0:
        assert time.monotonic() < deadline, f"runs do not settle:\n{scene.crew.log()}"
        owners.decide(everywhere=True)
        pause.wait(0.02)
    seconds = time.monotonic() - began
    return Leg(owners.entered, seconds, len(wipes or []), _lines(scene.database))


def _lines(database: Database) -> frozenset[str]:
    [rows] = database.run((_LINES, {}))
    return frozenset(row["line"] for row in rows)
