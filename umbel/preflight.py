"""What an author of a preflight hook needs: the call that it is shown, and what it may answer.

    from umbel.preflight import Cleared, Denied, PlannedCall, Verdict

    def no_mail_at_night(call: PlannedCall) -> Verdict:
        if call.name == "send_mail" and is_night():
            return Denied("at_night", "Mails are sent from seven o'clock on.")
        return Cleared(call.arguments_text)

Workers find it through the entry point group `umbel.preflight`, or `UMBEL_PREFLIGHT`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from umbel.names import Effect, Placement
from umbel.strict_json import Json


@dataclass(frozen=True, slots=True)
class Cleared:
    """The call may start, with exactly these bytes as its arguments."""

    arguments_text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The call may start once the run's owner has approved exactly these bytes."""

    arguments_text: str


@dataclass(frozen=True, slots=True)
class Denied:
    """The call ends as an error result that the model can act on."""

    code: str
    message: str


Verdict = Cleared | Asked | Denied


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call whose tool exists and whose arguments fit the schema: what a hook is shown."""

    position: int
    """Place in the model's reply, from 0."""
    model_id: str
    name: str
    effect: Effect
    placement: Placement
    version: str
    stall_seconds: float
    arguments_text: str
    """The bytes that are hashed, shown, approved and sent."""
    arguments: Mapping[str, Json]
    """The same, parsed."""
    targets: tuple[str, ...] = ()
    """What it would change, each as `umbel.target_name` writes it."""


class PreflightHook(Protocol):
    """One more check. A hook that raises denies the call; so does an answer that is no verdict."""

    def __call__(self, call: PlannedCall) -> Verdict:
        """`Cleared` or `Asked` with the call's own bytes, or `Denied` with words for the model."""
        ...
