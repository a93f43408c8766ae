"""What really happened, kept in the memory of the harness: nothing here is the product's word."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Verb = Literal["stop", "steer", "resume", "verify", "approve", "deny"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request whose acceptance was confirmed."""

    run: int
    """Its number, which its model has in its name."""
    run_id: str
    thread_id: str
    asks: bool = False
    """Its changes wait for the owner's approval."""


@dataclass(frozen=True, slots=True)
class Ack:
    """An owner's word that was confirmed."""

    verb: Verb
    run_id: str
    ref: str
    """The correction's id, or the call and what was said of its outcome, or decided upon."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A change that was done outside."""

    call_id: str
    run_id: str
    key: str
    """Which change it is, whatever call asked for it: run, step and place."""
    at: float
    """Monotonic seconds."""


@dataclass(slots=True)
class Ledger:
    """Everything the world outside has seen; several threads write to it."""

    accepted: list[Accepted] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    asked: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Requests at the model by run and step."""
    allowed: dict[str, str] = field(default_factory=dict)
    """What owners have said yes to, whether or not they were answered: the key by call."""
    tool_calls: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_accepted(self, accepted: Accepted) -> None:
        """The caller was told that its request is durable."""
        with self._lock:
            self.accepted.append(accepted)

    def note_ack(self, ack: Ack) -> None:
        """An owner was told that it counts."""
        with self._lock:
            self.acks.append(ack)

    def note_allowed(self, call_id: str, key: str) -> None:
        """An owner says yes; what was allowed may be done from now on."""
        with self._lock:
            self.allowed[call_id] = key

    def note_asked(self, run: int, step: int) -> None:
        """A request arrived at the model; it is paid for from now on."""
        with self._lock:
            self.asked[run, step] += 1

    def note_tool_call(self) -> None:
        """A tool was entered."""
        with self._lock:
            self.tool_calls += 1

    def note_effect(self, call_id: str, run_id: str, key: str) -> None:
        """A change is done."""
        with self._lock:
            self.effects.append(Effect(call_id, run_id, key, time.monotonic()))

    def effect_of(self, call_id: str) -> Effect | None:
        """The change of a call, if it was done."""
        with self._lock:
            return next((effect for effect in self.effects if effect.call_id == call_id), None)
