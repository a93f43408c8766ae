"""The model of one case: its turns in order, behind the rules of a strict provider."""

import hashlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cases.case_file import Case
from tests.cases.happenings import Happenings
from tests.cases.strict_provider import Violation, Window, find_violation, parse_body
from tests.cases.wire import error_body, stall_chunks, turn_chunks

LONGEST_STALL_SECONDS = 120.0


@dataclass(slots=True)
class Received:
    """A request as it came in, and what became of it."""

    purpose: str
    body: dict[str, Any]
    sha: str
    at: float
    turn: int | None = None
    """The main turn it was answered with, from 1."""
    outcome: str = "open"
    """`answer`, `error`, `stall`, `rejected`, `too_long`, `aux`, `no_tools`, `dropped`, `over`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes over the wire. `chunks` None: the connection is closed without a word."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    chunks: Iterator[bytes] | None = None


@dataclass(slots=True)
class ScriptedModel:
    """Serves one case; every method may be called from several threads."""

    case: Case
    happenings: Happenings
    real_names: Mapping[str, str] = field(default_factory=dict)
    """Names under which the product knows tools of the case, where they differ."""
    requests: list[Received] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)
    """Set when the case has been judged: stalled streams may end."""
    _served: int = 0
    _aux_served: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def turns_served(self) -> int:
        """How many turns have been used up."""
        return self._served

    def answer(self, raw: bytes, purpose: str) -> Answer:
        """The answer to one request."""
        body = parse_body(raw)
        received = Received(
            purpose,
            {} if isinstance(body, Violation) else body,
            hashlib.sha256(raw).hexdigest(),
            time.monotonic(),
        )
        with self._lock:
            self.requests.append(received)
        window = Window.of(self.case.run.get("model", {}))
        violation = body if isinstance(body, Violation) else find_violation(body, window)
        if violation is not None:
            return _refused(received, violation)
        if purpose != "main":
            return self._aux(received)
        forced = self.case.run.get("no_tools_reply")
        if forced is not None and self.case.tools and not received.body.get("tools"):
            received.outcome = "no_tools"
            return self._text(received, forced)
        return self._main(received)

    def _main(self, received: Received) -> Answer:
        number = self._served + 1
        done = self.happenings.reach(f"during_model:{number}")
        if any(event["do"] in ("kill", "freeze") for event in done):
            received.outcome = "dropped"
            return Answer()
        with self._lock:
            if self._served >= len(self.case.turns):
                received.outcome = "over"
                self.problems.append(f"main request {number}: the case has no such turn")
                return Answer(400, body=error_body(None, "the script is over"))
            turn = self.case.turns[self._served]
            self._served += 1
            received.turn = self._served
        if delay := turn.get("delay"):
            self.is_over.wait(float(delay))
        if "error" in turn:
            received.outcome = "error"
            return _error(turn["error"])
        if "stall" in turn:
            received.outcome = "stall"
            return Answer(chunks=self._stalling(turn["stall"], received))
        received.outcome = "answer"
        return self._text(received, turn)

    def _aux(self, received: Received) -> Answer:
        received.outcome = "aux"
        name = "summary" if received.purpose == "compact" else received.purpose
        script = self.case.run.get("aux", {}).get(name) or [
            {"text": "Short notes.", "usage": {"input": 10, "output": 5}}
        ]
        with self._lock:
            index = self._aux_served.get(name, 0)
            self._aux_served[name] = index + 1
        return self._text(received, script[min(index, len(script) - 1)])

    def _text(self, received: Received, turn: Mapping[str, Any]) -> Answer:
        named = self._under_real_names(turn)
        number = received.turn or 0
        return Answer(chunks=turn_chunks(named, received.body.get("model", ""), number))

    def _stalling(self, stall: Mapping[str, Any], received: Received) -> Iterator[bytes]:
        yield from stall_chunks(stall, received.body.get("model", ""), received.turn or 0)
        self.is_over.wait(LONGEST_STALL_SECONDS)

    def _under_real_names(self, turn: Mapping[str, Any]) -> Mapping[str, Any]:
        calls = [
            {**call, "name": self.real_names.get(call["name"], call["name"])}
            for call in turn.get("tool_calls", [])
        ]
        return {**turn, "tool_calls": calls} if calls else turn


def _refused(received: Received, violation: Violation) -> Answer:
    received.outcome = "too_long" if violation.is_size else "rejected"
    code = "context_length_exceeded" if violation.is_size else "invalid_request"
    words = "This model's maximum context length is exceeded: " if violation.is_size else ""
    message = f"{words}rule {violation.rule}: {violation.text}"
    return Answer(400, body=error_body(code, message))


def _error(error: Mapping[str, Any]) -> Answer:
    after = error.get("retry_after")
    headers = {} if after is None else {"retry-after": str(after)}
    message = error.get("message", f"the provider says {error.get('code')}")
    return Answer(int(error["status"]), headers, error_body(error.get("code"), message))
