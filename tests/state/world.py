"""One moment of everything: the record, messages, the lock, memories, and the world outside."""

from typing import Final, NamedTuple

from tests.state.record import (
    GONE,
    Call,
    CallRef,
    Claim,
    Done,
    ModelCall,
    Rows,
    Worker,
)
from tests.state.system import Budget

Message = tuple[int, int]
"""Step and position of a call; position 0 is the step itself."""

DECIDING: Final = ("answer", "dispatch")


class Mind(NamedTuple):
    """What one process remembers, and so what it does next."""

    at: str = "idle"
    claim: Claim | None = None
    call: CallRef | None = None
    attempt: int = 0
    outcome: str = ""
    bells: tuple[Message, ...] = ()


IDLE: Final = Mind()


class Sent(NamedTuple):
    """What the outside world has seen of a change."""

    call: CallRef
    is_flying: bool
    effects: int = 0


class Moment(NamedTuple):
    """A state of the search."""

    rows: Rows
    mail: tuple[Message, ...]
    budget: Budget
    lock: Worker | None = None
    minds: tuple[Mind, Mind] = (IDLE, IDLE)
    silent: tuple[bool, bool] = (False, False)
    sent: tuple[Sent, ...] = ()
    decided: tuple[int, ...] = ()
    """Steps with a decision, one entry per decision."""
    answers: int = 0
    proposed: int = 0
    """Calls that were decided upon."""
    has_gap: bool = False
    """Some verb took other event numbers than it wrote."""

    @property
    def dead(self) -> frozenset[Worker]:
        """Processes that the sweeper may take for dead."""
        return _DEAD[self.silent]

    def ledger(self, ref: CallRef) -> Sent | None:
        """The outside world's entry about a call."""
        for sent in self.sent:
            if sent.call == ref:
                return sent
        return None

    def after(self, done: Done) -> "Moment":
        """With what a verb has written."""
        rows, decided, answers = done.rows, self.decided, self.answers
        for model in rows.models:
            if model.decision in DECIDING and model not in self.rows.models:
                decided = (*decided, model.step)
                answers += model.decision == "answer"
        has_gap = self.has_gap or done.numbers != len(done.events)
        proposed = self.proposed + sum(self.rows.call(call.ref) is None for call in rows.calls)
        return self._replace(
            rows=rows, decided=decided, answers=answers, proposed=proposed, has_gap=has_gap
        )

    def thinking(self, slot: Worker, mind: Mind) -> "Moment":
        """With another memory of one process; an idle one is heard of again."""
        minds = (mind, self.minds[1]) if slot == 0 else (self.minds[0], mind)
        silent = self.silent
        if mind.at == "idle" and silent[slot]:
            silent = (False, silent[1]) if slot == 0 else (silent[0], False)
        return self._replace(minds=minds, silent=silent)

    def with_sent(self, entry: Sent) -> "Moment":
        """With another entry of the outside world."""
        others = tuple(sent for sent in self.sent if sent.call != entry.call)
        return self._replace(sent=tuple(sorted((*others, entry))))

    def with_mail(self, *messages: Message) -> "Moment":
        """With messages in the broker; a second one of the same kind only a fault puts there."""
        new = set(messages) - set(self.mail)
        return self._replace(mail=tuple(sorted((*self.mail, *new)))) if new else self


_DEAD: Final = {
    (a, b): frozenset([GONE, *([0] if a else []), *([1] if b else [])])
    for a in (False, True)
    for b in (False, True)
}


def renamed(moment: Moment, old: Worker, new: Worker) -> Moment:
    """The same with another process in the record and at the lock."""
    rows = _renamed_rows(moment.rows, {old: new})
    return moment._replace(rows=rows, lock=new if moment.lock == old else moment.lock)


def mirrored(moment: Moment) -> Moment:
    """The same with the two processes exchanged: nothing distinguishes them."""
    other = {0: 1, 1: 0}
    return moment._replace(
        rows=_renamed_rows(moment.rows, other),
        lock=None if moment.lock is None else other.get(moment.lock, moment.lock),
        minds=(moment.minds[1], moment.minds[0]),
        silent=(moment.silent[1], moment.silent[0]),
    )


def _renamed_rows(rows: Rows, names: dict[Worker, Worker]) -> Rows:
    run, calls = rows.run, rows.calls
    if run.holder in names:
        run = run._replace(holder=names[run.holder])
    if any(c.holder in names for c in calls):
        calls = tuple(c._replace(holder=names[c.holder]) if c.holder in names else c for c in calls)
    return rows._replace(run=run, calls=calls)


def tidied(moment: Moment) -> Moment:
    """The same without what nobody can come back to, and with the smallest numbers.

    Fences and attempts are compared and counted up, nothing else: only their order matters.
    """
    moment = _without_the_past(moment)
    rows, minds = moment.rows, moment.minds
    claims = [mind.claim for mind in minds if mind.claim is not None]
    fences = sorted({rows.run.fence, *(claim.fence for claim in claims)})
    counted: dict[int, int] = {}
    number_of: dict[tuple[int, int], int] = {}
    for model in rows.models:
        counted[model.step] = counted.get(model.step, 0) + 1
        number_of[model.step, model.attempt] = counted[model.step]
    if fences != list(range(len(fences))):
        rows = rows.with_run(rows.run._replace(fence=fences.index(rows.run.fence)))
    if any(number != attempt for (_, attempt), number in number_of.items()):
        models = (m._replace(attempt=number_of[m.step, m.attempt]) for m in rows.models)
        rows = rows._replace(models=tuple(models))
    if claims:
        minds = (_renumbered(minds[0], fences, number_of), _renumbered(minds[1], fences, number_of))
    if rows is moment.rows and minds is moment.minds:
        return moment
    return moment._replace(rows=rows, minds=minds)


def _renumbered(mind: Mind, fences: list[int], numbers: dict[tuple[int, int], int]) -> Mind:
    claim = mind.claim
    if claim is None:
        return mind
    attempt = numbers.get((claim.step, claim.attempt), 0)
    fence = fences.index(claim.fence)
    if (claim.fence, claim.attempt, claim.worker) == (fence, attempt, 0):
        return mind
    return mind._replace(claim=claim._replace(worker=0, fence=fence, attempt=attempt))


def _without_the_past(moment: Moment) -> Moment:
    rows, minds = moment.rows, moment.minds
    step = rows.run.step
    claims = {(m.claim.step, m.claim.attempt) for m in minds if m.claim is not None}
    known = {mind.call for mind in minds} | {sent.call for sent in moment.sent if sent.is_flying}
    models = tuple(
        m for m in rows.models if (m.step == step and _matters(m)) or (m.step, m.attempt) in claims
    )
    calls = tuple(c for c in rows.calls if c.step == step or c.ref in known or _is_open(c))
    kept = {call.ref for call in calls}
    # A message about what is over is read, found void, and changes nothing.
    mail = tuple(m for m in moment.mail if (m[1] == 0 and m[0] >= step) or m in kept)
    sent = tuple(entry for entry in moment.sent if entry.call in kept)
    lengths = (len(models), len(calls), len(mail), len(sent))
    if lengths == (len(rows.models), len(rows.calls), len(moment.mail), len(moment.sent)):
        return moment
    rows = rows._replace(models=models, calls=calls)
    return moment._replace(rows=rows, sent=sent, mail=mail)


def _matters(model: ModelCall) -> bool:
    return model.state == "open" or (model.decision in (None, *DECIDING) and model.state != "lost")


def _is_open(call: Call) -> bool:
    if call.receipt is not None and call.receipt.verified is not None:
        return True
    return call.state in ("planned", "awaiting_approval", "ready", "started", "unknown")
