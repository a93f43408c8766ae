"""What people do to runs, whichever door they come through: the write, then the bells.

Every verb is safe to repeat under a key of the caller's own: the second time does nothing and gets
the answer of the first. A verb that cannot be done raises what to do instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from locks.wake_ups import WakeUps
from models.approval_cards import find_card
from models.approvals import deny_call, grant_call
from models.database import Database
from models.follow_ups import FollowedUp, HandedOver
from models.objections import (
    explain_approval,
    explain_resume,
    explain_steer,
    explain_stop,
    explain_verify,
)
from models.owner import find_action, resume_run, steer_run, stop_run, verify_receipt
from models.owner_reading import known_receipt, known_steer, left_of
from models.records import load_spec
from tasks.next_change import ring_next_change
from tasks.resuming import other_limits
from tasks.ringing import Ringer
from umbel.contracts import CallId, Principal, RunId
from umbel.errors import InvalidInput, NotFound
from umbel.names import ApprovalWord, SteerMode, SteerState, Verification


@dataclass(frozen=True, slots=True)
class RunStopped:
    """A stop that was heard."""

    run_id: RunId
    is_over: bool
    """False: it ends when what was started before has ended."""
    draining: tuple[CallId, ...]
    """Calls that were started before: their outcome is still recorded."""
    is_new: bool


@dataclass(frozen=True, slots=True)
class RunSteered:
    """A correction that counts."""

    run_id: RunId
    steer_id: str
    mode: SteerMode
    state: SteerState
    is_new: bool


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A run that goes on."""

    run_id: RunId
    is_new: bool


@dataclass(frozen=True, slots=True)
class ReceiptVerified:
    """A change whose outcome its owner has found out."""

    run_id: RunId
    call_id: CallId
    outcome: Verification
    unknowns: int
    """Changes of the run whose outcome nobody knows yet."""
    is_new: bool


@dataclass(frozen=True, slots=True)
class CallDecided:
    """A call that its owner has decided about."""

    run_id: RunId
    call_id: CallId
    word: ApprovalWord
    is_new: bool


class OwnerVerbs:
    """The verbs of one principal."""

    def __init__(
        self, database: Database, ringer: Ringer, wake_ups: WakeUps, principal: Principal
    ) -> None:
        self._database = database
        self._ringer = ringer
        self._wake_ups = wake_ups
        self._principal = principal

    def stop(self, run_id: RunId, *, key: str | None = None) -> RunStopped:
        """Let nothing of the run start any more; a run that was stopped before stays so.

        Raises:
            Conflict, InvalidInput, NotFound, NotPermitted: as models/objections.py says.
            Unavailable: PostgreSQL does not answer; repeat it.
        """
        stopped = stop_run(self._database, run_id, self._principal, key=key)
        if stopped is not None:
            self._wake_ups.send([run_id])
            self._ring_steps(stopped.promoted)
            return RunStopped(run_id, stopped.is_over, stopped.draining, is_new=True)
        if self._earlier(run_id, key, "run.stopping") is None:
            explain_stop(self._database, run_id, self._principal)
        left = left_of(self._database, run_id)
        return RunStopped(run_id, left.status == "cancelled", left.draining, is_new=False)

    def steer(
        self, run_id: RunId, text: str, mode: SteerMode, *, key: str | None = None
    ) -> RunSteered:
        """Correct a run; the owner may, and a collaborator of a public thread.

        Raises:
            Conflict, InvalidInput, NotFound, NotPermitted: as models/objections.py says.
            Unavailable: PostgreSQL does not answer; repeat it under the same key.
        """
        steered = steer_run(self._database, run_id, self._principal, text, mode, key=key)
        if steered is not None:
            self._wake_ups.send([run_id])
            if steered.next_step is not None:
                self._ringer.ring_step(run_id, steered.next_step)
            return RunSteered(run_id, steered.steer_id, mode, "accepted", is_new=True)
        steer_id = self._earlier(run_id, key, "run.steered")
        if steer_id is None:
            explain_steer(self._database, run_id, self._principal)
        known = known_steer(self._database, steer_id)
        if (known.text, known.mode) != (text, mode):
            raise InvalidInput(_OTHER_USE.format(key=key))
        return RunSteered(run_id, steer_id, mode, known.state, is_new=False)

    def resume(
        self,
        run_id: RunId,
        *,
        limits: Mapping[str, int | None] | None = None,
        key: str | None = None,
    ) -> RunResumed:
        """Let a paused, failed or cancelled run go on, with other limits if any are given.

        Raises:
            Conflict, InvalidInput, NotFound, NotPermitted: as models/objections.py says.
            Unavailable: PostgreSQL does not answer; repeat it under the same key.
        """
        others = other_limits(load_spec(self._database, run_id), limits) if limits else None
        step = resume_run(self._database, run_id, self._principal, limits=others, key=key)
        if step is not None:
            self._ringer.ring_step(run_id, step)
        elif self._earlier(run_id, key, "run.resumed") is None:
            explain_resume(self._database, run_id, self._principal)
        return RunResumed(run_id, is_new=step is not None)

    def verify(self, call_id: CallId, outcome: Verification, text: str) -> ReceiptVerified:
        """Settle an unknown change by what its owner found; sends nothing, resumes nothing.

        What has waited for its resource goes on.

        Raises:
            Conflict, InvalidInput, NotFound, NotPermitted: as models/objections.py says.
            Unavailable: PostgreSQL does not answer; repeat it.
        """
        database, principal = self._database, self._principal
        receipt = known_receipt(database, call_id, principal.tenant)
        if receipt is None:
            raise NotFound(f"There is no receipt of {call_id!r}; `umbel receipts list` shows them.")
        run_id = receipt.run_id
        unknowns = verify_receipt(database, run_id, call_id, principal, outcome, text)
        if unknowns is not None:
            ring_next_change(database, self._ringer, call_id)
            return ReceiptVerified(run_id, call_id, outcome, unknowns, is_new=True)
        said = (principal.user, outcome, text)
        if (receipt.verified_by, receipt.verified, receipt.verified_text) != said:
            explain_verify(database, run_id, call_id, principal)
        left = left_of(database, run_id)
        return ReceiptVerified(run_id, call_id, outcome, left.unknowns, is_new=False)

    def approve(self, call_id: CallId, args_sha: bytes) -> CallDecided:
        """Let a call start that waits for its owner, with exactly the bytes of this hash.

        Raises:
            Conflict, NotFound, NotPermitted: as models/objections.py says.
            Unavailable: PostgreSQL does not answer; repeat it.
        """
        granted = grant_call(self._database, call_id, self._principal, args_sha)
        if granted is None:
            return self._decided_before(call_id, args_sha, "granted")
        if granted.ready is not None:
            self._ringer.ring_call(granted.ready.call_id, granted.ready.tool)
        return CallDecided(granted.run_id, call_id, "granted", is_new=True)

    def deny(self, call_id: CallId, args_sha: bytes, words: str = "") -> CallDecided:
        """End a call that waits for its owner unsent; the words are told to the model.

        Raises:
            Conflict, InvalidInput, NotFound, NotPermitted: as models/objections.py says.
            Unavailable: PostgreSQL does not answer; repeat it.
        """
        denied = deny_call(self._database, call_id, self._principal, args_sha, words)
        if denied is None:
            return self._decided_before(call_id, args_sha, "denied")
        if denied.settled.next_step is not None:
            self._ringer.ring_step(denied.run_id, denied.settled.next_step)
        return CallDecided(denied.run_id, call_id, "denied", is_new=True)

    def _decided_before(self, call_id: CallId, args_sha: bytes, word: ApprovalWord) -> CallDecided:
        """The same answer for the same word again, while it counts; else why it does not."""
        card = find_card(self._database, call_id, tenant=self._principal.tenant)
        said = card and (card.owner, card.word, card.said_by, card.sha256)
        user = self._principal.user
        if card is None or card.state == "skipped" or said != (user, word, user, args_sha.hex()):
            explain_approval(self._database, call_id, self._principal, args_sha)
        return CallDecided(card.run_id, call_id, word, is_new=False)

    def followed_up(self, found: FollowedUp | HandedOver) -> None:
        """Ring for what a further request has brought about."""
        match found:
            case HandedOver(run_id=run_id, steered=steered):
                self._wake_ups.send([run_id])
                if steered.next_step is not None:
                    self._ringer.ring_step(run_id, steered.next_step)
            case FollowedUp(accepted=accepted, stopped=stopped, promoted=promoted):
                if stopped is not None:
                    self._wake_ups.send([stopped])
                if not accepted.is_queued:
                    self._ringer.ring_step(accepted.run_id, 1)
                self._ring_steps(promoted)

    def _ring_steps(self, steps: tuple[tuple[RunId, int], ...]) -> None:
        for run_id, step in steps:
            self._ringer.ring_step(run_id, step)

    def _earlier(self, run_id: RunId, key: str | None, kind: str) -> str | None:
        """What the same verb under this key was about, if there was one."""
        if key is None:
            return None
        action = find_action(self._database, run_id, self._principal, key)
        if action is None:
            return None
        if action.kind != kind:
            raise InvalidInput(_OTHER_USE.format(key=key))
        return action.ref


_OTHER_USE: Final = "The key {key!r} was used for something else; give every command its own."
