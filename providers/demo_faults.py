"""The faults that the demo model can show: `umbel run --model demo:429` and the like.

They are wire forms of real endpoints, replayed end to end, so that people can see what a run does
about them. The table is data: `demo_faults.toml`.
"""

import hashlib
import threading
import tomllib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

from providers.demo_wire import MODEL

_TABLE: Final = Path(__file__).with_name("demo_faults.toml")
_REMEMBERED_RUNS: Final = 1_000
_MAX_TIMES: Final = 1_000_000

Rewrite = Literal["", "empty", "length", "badjson", "unknown-tool", "dup-ids", "glued"]
Then = Literal["", "reset", "end", "drip"]


class UnknownFault(ValueError):
    """The model name asks for a fault that there is not; the text names those there are."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong; the fields are those of the table."""

    name: str
    meaning: str
    times: int
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    page: str = ""
    silent: bool = False
    rewrite: Rewrite = ""
    keep: int | None = None
    then: Then = ""
    last: Mapping[str, Any] = field(default_factory=dict)
    gap_seconds: float = 0.0
    comments: bool = False
    refuses_repeats: bool = False


def describe() -> list[tuple[str, str]]:
    """Name and meaning of every fault, for help texts; how often is said where it is not once."""
    return [(fault.name, _with_times(fault)) for fault in known_faults().values()]


def is_demo_model(model: str | None) -> bool:
    """True for `demo` and for `demo:FAULT`, known or not."""
    return model == MODEL or (model or "").startswith(f"{MODEL}:")


def fault_of(model: object) -> Fault | None:
    """The fault that a model name asks for; None for plain `demo` and other names.

    Raises:
        UnknownFault: there is none of that name, or N is no number above zero.
    """
    if not isinstance(model, str) or not model.startswith(f"{MODEL}:"):
        return None
    name, _, times = model.removeprefix(f"{MODEL}:").partition(":")
    fault = known_faults().get(name)
    if fault is None:
        known = ", ".join(known_faults())
        raise UnknownFault(f"The demo model has no fault {name!r}; it knows {known}.")
    if not times:
        return fault
    if not times.isdecimal() or not 0 < int(times[:8]) <= _MAX_TIMES:
        raise UnknownFault(f"{times!r} is no number of requests; write demo:{name}:3, for example.")
    return replace(fault, times=int(times))


@lru_cache(maxsize=1)
def known_faults() -> Mapping[str, Fault]:
    """The table, by name."""
    table = tomllib.loads(_TABLE.read_text("utf-8"))
    return {name: Fault(name=name, **entry) for name, entry in table.items()}


class FaultMemory:
    """How often each run has met a fault, so that it stops after N; for the last thousand runs."""

    def __init__(self) -> None:
        self._met: OrderedDict[str, int] = OrderedDict()
        self._refused: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def is_due(self, fault: Fault, conversation: str, raw: bytes) -> bool:
        """True if this request is to meet the fault; counts it."""
        key = f"{conversation} {fault.name}"
        digest = f"{key} {hashlib.sha256(raw).hexdigest()}"
        with self._lock:
            if fault.refuses_repeats and digest in self._refused:
                return True
            met = self._met.pop(key, 0)
            is_due = not fault.times or met < fault.times
            self._met[key] = met + is_due
            if is_due and fault.refuses_repeats:
                self._refused[digest] = None
            for kept in (self._met, self._refused):
                while len(kept) > _REMEMBERED_RUNS:
                    kept.popitem(last=False)
        return is_due


def conversation_key(request_id: str | None, body: Mapping[str, Any]) -> str:
    """What tells one run from another: its id in our own header, else its first words."""
    if request_id:
        return request_id.partition(":")[0]
    users = (item for item in body["messages"] if item.get("role") == "user")
    words = next((repr(item.get("content")) for item in users), "")
    return hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()


def _with_times(fault: Fault) -> str:
    return fault.meaning if fault.times <= 1 else f"{fault.meaning}, {fault.times} times"
