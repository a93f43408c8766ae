"""What is going on right now: the reply that is being written, the calls that are running."""

from typing import Final

from umbel.cli.moments import (
    CallAsked,
    CallSettled,
    Happened,
    ModelText,
    Moment,
    Progress,
    RunSettled,
    StepDecided,
    StepRetried,
    StepStarted,
)
from umbel.cli.safe_text import safe

_ROWS: Final = 6
_WRITING: Final = {
    "text": "the model is writing",
    "reasoning": "the model is thinking",
    "call": "the model is asking for tools",
}

_CALL_GOES_ON: Final = ("call.ready", "call.intent")
_WAITING: Final = {
    "request": "loading",
    "servers": "waiting for the servers",
    "workers": "waiting for the workers",
    "stopping": "stopping",
}


class Present:
    """Kept up to date by `take`; forgets whatever is over."""

    def __init__(self) -> None:
        self._text = ""
        self._passed_on = 0
        self._calls: dict[str, str] = {}
        self._doing = ""
        self._in_step = False

    def take(self, moment: Moment) -> None:
        """Remember what a moment begins and forget what it ends."""
        match moment:
            case Progress(topic=topic):
                # A late "tool is ready" or a remark ends nothing that a step is doing.
                if topic == "stopping" or not self._in_step:
                    self._doing = _WAITING.get(topic, "")
            case StepStarted():
                self._in_step = True
                self._begin("waiting for the model")
            case ModelText(kind=kind, text=text):
                self._doing = _WRITING[kind]
                self._text += text if kind == "text" else ""
            case CallAsked() | CallSettled():
                self._take_call(moment)
            case Happened():
                self._take_event(moment)
            case StepDecided() | StepRetried() | RunSettled():
                self._begin("")
            case _:
                return

    def _take_call(self, moment: CallAsked | CallSettled) -> None:
        if isinstance(moment, CallAsked):
            self._calls[moment.call_id] = moment.tool
        else:
            self._calls.pop(moment.call_id, None)

    def _take_event(self, event: Happened) -> None:
        call_id = event.ref or ""
        match event.kind:
            case "step.claimed":
                self._begin("waiting for the model")
            case "call.ready":
                self._calls[call_id] = str(event.facts.get("tool"))
            case kind if kind.startswith("call."):
                if kind not in _CALL_GOES_ON:
                    self._calls.pop(call_id, None)
            case kind if kind.startswith(("step.", "run.")):
                self._begin("")
            case _:
                return

    @property
    def doing(self) -> str:
        """In words; empty when nothing is."""
        if self._calls:
            return f"running {', '.join(self._calls.values())}"
        return self._doing

    def last_rows(self, width: int) -> list[str]:
        """The end of what the model is writing, as rows of at most `width` characters."""
        rows: list[str] = []
        for line in safe(self._text).split("\n")[-_ROWS:]:
            rows += [line[at : at + width] for at in range(0, len(line), width)]
        return rows[-_ROWS:]

    def pass_on_lines(self) -> list[str]:
        """Complete lines that have not been passed on yet; each is passed on once."""
        complete, newline, _ = self._text[self._passed_on :].rpartition("\n")
        if not newline:
            return []
        self._passed_on += len(complete) + 1
        return safe(complete).split("\n")

    def _begin(self, doing: str) -> None:
        self._text, self._passed_on, self._doing = "", 0, doing
