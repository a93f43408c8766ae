"""The phases of a campaign: hurt, heal, care, judge."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from models.database import Database
from tests.chaos.harness.crew import READY_SECONDS
from tests.chaos.harness.judge import Judge, Violation
from tests.chaos.harness.nemesis import Nemesis, keep_striking
from tests.chaos.harness.reading import read_back, trace_of
from tests.chaos.harness.scene import Scene, a_scene
from tests.chaos.harness.script import Script
from tests.chaos.harness.watching import Watch, endless_keys, in_thread, standing_still
from umbel.errors import Unavailable

Say = Callable[[str], None]

_HEAD_START: Final = 10
"""So many runs, or kills, may one of the two be ahead of the other."""
_TOLD_EVERY_SECONDS: Final = 5.0
_SHOWN_TRACES: Final = 3
_SETTLED_AFTER: Final = """
SELECT extract(epoch FROM settled_at - %(since)s::timestamptz)::float8 AS seconds FROM runs
WHERE settled_at > %(since)s::timestamptz ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked of a campaign."""

    runs: int
    kills: int
    seed: int
    settle_seconds: float = 60.0
    """Within which everything must have settled once everybody is back."""
    mean_pause_seconds: float = 0.4
    """Between two faults."""
    in_flight: int = 24
    """Unsettled runs, from which on no other is handed in."""
    longest_seconds: float = float("inf")
    """After which it heals, whatever is still to be done."""
    mutant: str | None = None


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    plan: Plan
    faults: dict[str, int] = field(default_factory=dict)
    fault_log: list[str] = field(default_factory=list)
    hurt_seconds: float = 0.0
    back_seconds: float = 0.0
    """From the end of the hurting until everybody was at work again."""
    settle_seconds: list[float] = field(default_factory=list)
    """Of each run that was not settled then, from that moment on."""
    violations: list[Violation] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)
    """For people: how much was done, and what came of it."""

    @property
    def kills(self) -> int:
        """Processes killed."""
        return self.faults.get("kill worker", 0) + self.faults.get("kill pool child", 0)


def carry_out(plan: Plan, say: Say) -> Outcome:
    """Run a campaign; tells every few seconds how it goes.

    Raises:
        Exception: the harness itself failed, which proves nothing about the product.
    """
    outcome = Outcome(plan)
    say(f"seed {plan.seed}: starting PostgreSQL, Valkey and the workers")
    with a_scene(Script(plan.seed), {}, mutant=plan.mutant) as scene:
        nemesis = Nemesis(scene.servers, scene.crew, random.Random(f"{plan.seed} nemesis"))
        watch, is_over = Watch(scene.servers, scene.crew), threading.Event()
        failures: list[BaseException] = []
        watching = in_thread(lambda: watch.keep_looking(is_over), failures)
        try:
            _hurt(plan, scene, nemesis, outcome, say)
            _heal(plan, scene, nemesis, outcome, say)
            outcome.violations += Judge(scene.database, scene.ledger).verdict()
            if not any(v.rule == "unsettled run" for v in outcome.violations):
                _care(plan, scene, outcome, say)
        finally:
            is_over.set()
            watching.join()
        _raise_first(failures)
        _judge(scene, watch, outcome)
    return outcome


def _hurt(plan: Plan, scene: Scene, nemesis: Nemesis, outcome: Outcome, say: Say) -> None:
    """Strike and hand in, in step with each other, until enough of both."""
    owners, is_over = scene.owners, threading.Event()
    failures: list[BaseException] = []

    def may_strike() -> bool:
        _replace_fallen(scene, outcome)
        return nemesis.kills * plan.runs <= plan.kills * (owners.entered + _HEAD_START)

    def hand_in() -> None:
        while not is_over.wait(0.1):
            _let_owners_act(plan, scene, nemesis)

    threads = [
        in_thread(
            lambda: keep_striking(nemesis, is_over, may_strike, plan.mean_pause_seconds), failures
        ),
        in_thread(hand_in, failures),
    ]
    told = 0.0
    while not failures and not _is_enough(plan, scene, nemesis):
        if (now := time.monotonic() - nemesis.began) - told >= _TOLD_EVERY_SECONDS:
            told = now
            say(
                f"{now:6.0f} s  runs {owners.entered}/{plan.runs}  kills {nemesis.kills}/"
                f"{plan.kills}  faults {len(nemesis.log)}  changes {len(scene.ledger.effects)}"
            )
        is_over.wait(0.2)
    is_over.set()
    for thread in threads:
        thread.join()
    outcome.hurt_seconds = time.monotonic() - nemesis.began
    outcome.faults = nemesis.counts
    outcome.fault_log = [str(done) for done in nemesis.log]
    _raise_first(failures)


def _let_owners_act(plan: Plan, scene: Scene, nemesis: Nemesis) -> None:
    owners = scene.owners
    unsettled = owners.unsettled()
    is_due = owners.entered * plan.kills <= plan.runs * (nemesis.kills + _HEAD_START)
    has_room = unsettled is not None and unsettled < plan.in_flight
    if is_due and has_room and owners.entered < plan.runs:
        owners.enter()
    if owners.chance.random() < 0.3 and len(scene.ledger.acks) < owners.entered:
        owners.do_something()
    if owners.chance.random() < 0.1:
        owners.say_what_happened()
    if owners.chance.random() < 0.3:
        owners.decide()


def _is_enough(plan: Plan, scene: Scene, nemesis: Nemesis) -> bool:
    if time.monotonic() - nemesis.began > plan.longest_seconds:
        return True
    has_all = scene.owners.entered >= plan.runs and nemesis.kills >= plan.kills
    return has_all and nemesis.has_tried_all()


def _heal(plan: Plan, scene: Scene, nemesis: Nemesis, outcome: Outcome, say: Say) -> None:
    """Everybody back at work, then wait until everything has settled, or the time is over."""
    began = time.monotonic()
    nemesis.relent()
    _replace_fallen(scene, outcome)
    scene.crew.wait_ready(READY_SECONDS)
    outcome.back_seconds = time.monotonic() - began
    since = _now(scene.database)
    say(f"no faults any more, everybody is back after {outcome.back_seconds:.1f} s")
    _until_settled(scene, outcome, plan.settle_seconds)
    [rows] = scene.database.run((_SETTLED_AFTER, {"since": since}))
    outcome.settle_seconds = [row["seconds"] for row in rows]


def _care(plan: Plan, scene: Scene, outcome: Outcome, say: Say) -> None:
    """Owners say of every unknown change what became of it, and resume: all runs must end."""
    deadline = time.monotonic() + plan.settle_seconds
    rounds = 0
    while time.monotonic() < deadline:
        scene.owners.say_what_happened(everywhere=True)
        if not scene.owners.resume_all() and scene.owners.unsettled() == 0:
            break
        rounds += 1
        _until_settled(scene, outcome, max(1.0, deadline - time.monotonic()))
    else:
        outcome.violations.append(
            Violation("unsettled run", "runs have no end although their owners did what they can")
        )
    say(f"owners verified and resumed in {rounds} rounds")


def _until_settled(scene: Scene, outcome: Outcome, seconds: float) -> None:
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while scene.owners.unsettled() != 0 and time.monotonic() < deadline:
        _replace_fallen(scene, outcome)
        scene.owners.decide(everywhere=True)
        pause.wait(0.1)


def _replace_fallen(scene: Scene, outcome: Outcome) -> None:
    """Do a supervisor's work, and note who ended by itself."""
    for name in scene.crew.replace_fallen():
        outcome.violations.append(Violation("ended by itself", name))


def _judge(scene: Scene, watch: Watch, outcome: Outcome) -> None:
    """Everything once more, now that owners have spoken too, and what only watching shows."""
    judge = Judge(scene.database, scene.ledger)
    known = {(v.rule, v.text, v.run_id) for v in outcome.violations}
    found = [*judge.verdict()]
    rows, unreadable = read_back(scene.database)
    found += unreadable
    found += [Violation("idle transaction", text) for text in watch.idle]
    found += [Violation("worker stands still", name) for name in standing_still(scene.crew)]
    found += [Violation("endless key", key) for key in endless_keys(scene.servers)]
    outcome.violations += [v for v in found if (v.rule, v.text, v.run_id) not in known]
    broken = [v.run_id for v in outcome.violations if v.run_id and v.run_id != "?"]
    for run_id in list(dict.fromkeys(broken))[:_SHOWN_TRACES]:
        outcome.traces += trace_of(scene.database, run_id)
    outcome.figures = _figures(scene, judge, watch, rows)


def _figures(scene: Scene, judge: Judge, watch: Watch, rows: int) -> dict[str, str]:
    ledger = scene.ledger
    words = ", ".join(
        f"{sum(ack.verb == verb for ack in ledger.acks)} {verb}"
        for verb in ("stop", "steer", "resume", "verify")
    )
    ends = ", ".join(f"{count} {end}" for end, count in judge.tally().most_common())
    return {
        "runs": f"{len(ledger.accepted)} accepted; at the end {ends}",
        "model": f"{sum(ledger.asked.values())} requests, {len(ledger.asked)} different steps",
        "tools": f"{ledger.tool_calls} calls, {len(ledger.effects)} changes done, "
        f"{judge.unknown_outcomes()} outcomes unknown",
        "owners": words,
        "read back": f"{rows} rows; sessions looked at {watch.looks} times",
    }


def _now(database: Database) -> object:
    while True:
        try:
            [rows] = database.run(("SELECT clock_timestamp() AS now", {}))
        except Unavailable:
            continue
        return rows[0]["now"]


def _raise_first(failures: list[BaseException]) -> None:
    if failures:
        raise failures[0]
