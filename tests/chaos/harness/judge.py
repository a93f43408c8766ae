"""Compares what the record says with what really happened."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from models.database import Database, Row
from tests.chaos.harness.ledger import Ledger
from tests.chaos.harness.script import model_of
from tests.invariants import violations as broken_rules_of_record

RULES: Final = {
    "broken rule of the record": "a query of models/invariants.py finds rows",
    "lost run": "a request was confirmed and there is no run",
    "unsettled run": "a run does not come to rest although everything is well again",
    "failed run": "a run fails, which no fault may cause",
    "change done twice": "the same change was done more than once",
    "change without intent": "a change was done that no receipt speaks of",
    "change without approval": "a change was done to which its owner had not said yes, or said no",
    "false receipt": "a receipt says done and nothing was, or not done and it was",
    "unknown not shown": "a change was done, and its call is neither done nor unknown",
    "forgotten word": "an owner was told that it counts, and the record has no trace of it",
    "unexplained model call": "the model was asked again, and no loss of the run explains it",
    "invisible model call": "the model was asked more often than the record has attempts",
    "unreadable row": "a function that shows runs cannot read one",
    "idle transaction": "a transaction stood open for more than five seconds",
    "endless key": "a key of ours in Redis has no end",
    "worker stands still": "a worker lives by its beats and waits for one connection alone",
    "ended by itself": "a worker ended although nobody killed it",
}
"""Every rule the harness checks, and what it means when it is broken."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule."""

    rule: str
    text: str
    run_id: str | None = None

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}" + (f" ({self.run_id})" if self.run_id else "")


_RUNS: Final = """
SELECT r.id, r.status, r.reason, r.detail, s.model FROM runs r JOIN run_specs s ON s.run_id = r.id
"""
_RECEIPTS: Final = """
SELECT x.call_id, x.run_id, x.outcome, x.verified, x.late_outcome, c.state
FROM receipts x JOIN calls c ON c.id = x.call_id
"""
_ATTEMPTS: Final = "SELECT run_id, step, count(*)::int AS n FROM model_calls GROUP BY run_id, step"
_DECIDED: Final = """
SELECT run_id, count(DISTINCT step)::int AS n FROM model_calls
WHERE decision IN ('answer', 'dispatch') GROUP BY run_id
"""
# Whoever loses its run, or has it taken or corrected, may have asked the model for nothing.
_REASONS_TO_ASK_AGAIN: Final = """
SELECT run_id, count(*)::int AS n FROM events
WHERE kind IN ('run.taken_over', 'step.handed_back', 'step.discarded', 'step.fenced_out',
  'step.retry', 'run.stopping', 'run.steered') GROUP BY run_id
"""
_STOPS: Final = """
SELECT run_id, kind, count(*)::int AS n FROM events
WHERE kind IN ('run.stopping', 'run.resumed') GROUP BY run_id, kind
"""
_STEERS: Final = "SELECT id FROM steers"
_APPROVALS: Final = "SELECT call_id, word FROM approvals WHERE word IN ('granted', 'denied')"
_WORD_OF: Final = {"approve": "granted", "deny": "denied"}


@dataclass(frozen=True, slots=True)
class Judge:
    """One system at rest and its ledger."""

    database: Database
    ledger: Ledger

    def verdict(self) -> list[Violation]:
        """Every broken rule that record and ledger show, the gravest first."""
        return [
            *self._lost_and_failed(),
            *self._changes(),
            *self._approvals(),
            *self._receipts(),
            *self._words(),
            *self._model_calls(),
            *(
                Violation("broken rule of the record", text)
                for text in broken_rules_of_record(self.database)
            ),
        ]

    def tally(self) -> Counter[str]:
        """How many runs came to which end."""
        return Counter(
            row["status"] if row["reason"] is None else f"{row['status']} ({row['reason']})"
            for row in self._rows(_RUNS)
        )

    def unknown_outcomes(self) -> int:
        """Changes whose outcome nobody knew at some time."""
        return sum(row["outcome"] == "unknown" for row in self._rows(_RECEIPTS))

    def _lost_and_failed(self) -> Iterator[Violation]:
        runs = {row["id"]: row for row in self._rows(_RUNS)}
        for accepted in self.ledger.accepted:
            run = runs.get(accepted.run_id)
            if run is None or run["model"] != model_of(accepted.run):
                yield Violation("lost run", f"number {accepted.run}", accepted.run_id)
            elif run["status"] in ("queued", "running", "waiting", "cancelling"):
                yield Violation("unsettled run", f"it is {run['status']}", accepted.run_id)
            elif run["status"] == "failed":
                yield Violation("failed run", f"{run['reason']}: {run['detail']}", accepted.run_id)

    def _changes(self) -> Iterator[Violation]:
        """Of the world outside: what was done, how often, and does the record know."""
        receipts = {row["call_id"]: row for row in self._rows(_RECEIPTS)}
        for key, count in Counter(effect.key for effect in self.ledger.effects).items():
            if count > 1:
                of_key = [effect for effect in self.ledger.effects if effect.key == key]
                calls = ", ".join(effect.call_id for effect in of_key)
                yield Violation("change done twice", f"{key} by {calls}", of_key[0].run_id)
        for effect in self.ledger.effects:
            receipt = receipts.get(effect.call_id)
            if receipt is None or receipt["run_id"] != effect.run_id:
                yield Violation("change without intent", effect.key, effect.run_id)
            elif receipt["outcome"] not in ("done", "unknown", "not_done"):
                yield Violation(
                    "unknown not shown",
                    f"{effect.key} {effect.call_id} is {receipt['state']}, "
                    f"its receipt says {receipt['outcome']}",
                    effect.run_id,
                )

    def _approvals(self) -> Iterator[Violation]:
        """Of changes that wait for their owner: no yes, no change."""
        asking = {accepted.run_id for accepted in self.ledger.accepted if accepted.asks}
        denied = {ack.ref for ack in self.ledger.acks if ack.verb == "deny"}
        for effect in self.ledger.effects:
            is_allowed = self.ledger.allowed.get(effect.call_id) == effect.key
            if effect.run_id in asking and (not is_allowed or effect.call_id in denied):
                yield Violation("change without approval", effect.key, effect.run_id)

    def _receipts(self) -> Iterator[Violation]:
        done = {effect.call_id for effect in self.ledger.effects}
        for row in self._rows(_RECEIPTS):
            word = row["outcome"]
            if (word == "done") > (row["call_id"] in done) or (
                word == "not_done" and row["call_id"] in done
            ):
                yield Violation(
                    "false receipt", f"{row['call_id']} says {word}, which is not so", row["run_id"]
                )

    def _words(self) -> Iterator[Violation]:
        steers = {row["id"] for row in self._rows(_STEERS)}
        verified = {
            f"{row['call_id']} {row['verified']}"
            for row in self._rows(_RECEIPTS)
            if row["verified"]
        }
        decided = {(row["call_id"], row["word"]) for row in self._rows(_APPROVALS)}
        events = {(row["run_id"], row["kind"]): row["n"] for row in self._rows(_STOPS)}
        told = Counter((ack.verb, ack.run_id) for ack in self.ledger.acks)
        for ack in self.ledger.acks:
            if (
                (ack.verb == "steer" and ack.ref not in steers)
                or (ack.verb == "verify" and ack.ref not in verified)
                or (ack.verb in _WORD_OF and (ack.ref, _WORD_OF[ack.verb]) not in decided)
            ):
                yield Violation("forgotten word", f"{ack.verb} {ack.ref}", ack.run_id)
        for verb, kind in (("stop", "run.stopping"), ("resume", "run.resumed")):
            for (acked, run_id), count in told.items():
                if acked == verb and events.get((run_id, kind), 0) < count:
                    yield Violation("forgotten word", f"{verb}, {count} times", run_id)

    def _model_calls(self) -> Iterator[Violation]:
        numbers = {accepted.run: accepted.run_id for accepted in self.ledger.accepted}
        attempts = {(row["run_id"], row["step"]): row["n"] for row in self._rows(_ATTEMPTS)}
        decided = {row["run_id"]: row["n"] for row in self._rows(_DECIDED)}
        reasons = {row["run_id"]: row["n"] for row in self._rows(_REASONS_TO_ASK_AGAIN)}
        asked: Counter[str] = Counter()
        for (number, step), count in self.ledger.asked.items():
            run_id = numbers.get(number, "?")
            asked[run_id] += count
            if count > attempts.get((run_id, step), 0):
                yield Violation("invisible model call", f"step {step}: {count} requests", run_id)
        for run_id, count in asked.items():
            extra = count - decided.get(run_id, 0) - reasons.get(run_id, 0)
            if extra > 0:
                yield Violation("unexplained model call", f"{extra} of {count} requests", run_id)

    def _rows(self, sql: str) -> list[Row]:
        [rows] = self.database.run((sql, {}))
        return rows
