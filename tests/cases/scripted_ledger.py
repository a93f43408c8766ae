"""The tools of one case as the world outside sees them: entered, effect done, how often."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cases.case_file import Case
from tests.cases.happenings import Happenings, Occurrence


@dataclass(frozen=True, slots=True)
class ToolVisit:
    """A report of a running tool: from which process, for which call."""

    tool: str
    """The name the case gives it."""
    call: str
    """The case's id of the call."""
    call_id: str
    pid: int

    def occurrence(self) -> Occurrence:
        """The same, for events."""
        return Occurrence(self.pid, {"call_id": self.call_id})


@dataclass(slots=True)
class ToolLedger:
    """Counts outside of the system under test, and what each execution does."""

    case: Case
    happenings: Happenings
    starts: dict[str, int] = field(default_factory=dict)
    executions: dict[str, int] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    """`start:ID` and `end:ID` as they came."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, visit: ToolVisit) -> Any:
        """The tool was entered; returns what it shall do, after the events of this point."""
        with self._lock:
            started = self.starts.get(visit.tool, 0)
            self.starts[visit.tool] = started + 1
            self.order.append(f"start:{visit.call}")
        self.happenings.reach(f"during_tool:{visit.call}", visit.occurrence())
        return self._action(visit, started)

    def commit(self, visit: ToolVisit) -> None:
        """The effect is done; returns after the events of this point."""
        with self._lock:
            self.executions[visit.tool] = self.executions.get(visit.tool, 0) + 1
            self.order.append(f"end:{visit.call}")
        self.happenings.reach(f"after_effect:{visit.call}", visit.occurrence())

    def _action(self, visit: ToolVisit, started_before: int) -> Any:
        tool = next(tool for tool in self.case.tools if tool["name"] == visit.tool)
        behaviour = tool["behaviour"]
        if isinstance(behaviour, Mapping) and "by_call" in behaviour:
            behaviour = behaviour["by_call"][visit.call]
        if isinstance(behaviour, list):
            behaviour = behaviour[min(started_before, len(behaviour) - 1)]
        return behaviour
