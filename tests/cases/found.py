"""What was found after a case has been run: the record, and the world outside of the product."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.cases.record import Record
from tests.cases.scripted_model import Received
from tests.cases.world import World

ERROR_STATES = frozenset({"errored", "refused"})


@dataclass(slots=True)
class Found:
    """Everything the expectations of a case look at."""

    world: World
    record: Record
    statuses: list[tuple[str, str | None]] = field(default_factory=list)
    """Status and reason as they were seen, in order."""
    living_workers: bool = True
    """Every worker that was not killed on purpose is alive."""
    bystander: str | None = None
    """The status of a second run on the same workers, if there was one."""

    @property
    def main_requests(self) -> list[Received]:
        """Requests for the run's own steps."""
        return [r for r in self.world.model.requests if r.purpose == "main"]

    def answered(self) -> list[Received]:
        """Main requests that got a normal answer."""
        return [r for r in self.main_requests if r.outcome in ("answer", "no_tools")]

    def request_of_turn(self, turn: int) -> Received | None:
        """The request that was answered with a turn."""
        return next((r for r in self.main_requests if r.turn == turn), None)

    def result_sent(self, case_id: str) -> str | None:
        """The copy of a call's result that the model saw last, or would see next."""
        call = self.record.call(case_id)
        if call is None:
            return None
        for request in reversed(self.main_requests):
            for message in request.body.get("messages", []):
                if message.get("role") == "tool" and message.get("tool_call_id") == call["id"]:
                    return str(message["content"])
        view: str | None = call["view"]
        return view

    def usage_rows(self) -> list[dict[str, Any]]:
        """Ledger rows of main answers: every answer that was received, usable or not.

        An estimate for a stream that broke off is spend, but no answer.
        """
        return [
            row
            for row in self.record.model_calls
            if row["purpose"] == "main"
            and row["state"] == "closed"
            and (row["reply"]["failure"] is None or _is_counted(row))
        ]

    def transcript(self) -> list[str]:
        """The durable transcript in the words of the case format."""
        lines = ["user" for entry in self.record.entries if entry["kind"] == "request"]
        heard = 0
        for row in self.record.model_calls:
            if row["decision"] in ("dispatch", "answer"):
                said = [s for s in self.record.steers if heard < s["rev"] <= row["steers"]]
                lines += ["user:steer" for steer in said if steer["state"] != "returned"]
                heard = row["steers"]
            if row["decision"] == "dispatch":
                calls = [c for c in self.record.calls if c["step"] == row["step"]]
                asked = f"calls({','.join(c['model_id'] for c in calls)})" if calls else "text"
                lines.append(f"assistant:{asked}")
                lines += [_line_of(call) for call in calls if call["body"] is not None]
                lines += ["user:image"] if any(call["pictures"] for call in calls) else []
            elif row["decision"] == "answer":
                lines.append("assistant:text")
        return lines


def arguments(text: str | None) -> Any:
    """Arguments of a call as a value."""
    return None if text is None else json.loads(text)


def _is_counted(row: dict[str, Any]) -> bool:
    return row["input_tokens"] is not None and not row["is_estimated"]


def _line_of(call: dict[str, Any]) -> str:
    line = f"tool({call['model_id']})"
    if call["state"] in ERROR_STATES:
        return f"{line}:error"
    return f"{line}:skipped" if call["state"] == "skipped" else line
