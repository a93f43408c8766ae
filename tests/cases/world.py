"""Everything around one case's run: its model, its tools, its events, and its ids."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.cases.case_file import Case
from tests.cases.happenings import Event, Happenings, Occurrence
from tests.cases.scripted_ledger import ToolLedger
from tests.cases.scripted_model import ScriptedModel
from tests.cases.scripted_tools import real_name

Perform = Callable[["World", Event, Occurrence], str | None]


@dataclass(slots=True)
class World:
    """The outside of one run; shared by the model server, the tools and the fault points."""

    case: Case
    perform: Perform
    run_id: str = ""
    happenings: Happenings = field(init=False)
    model: ScriptedModel = field(init=False)
    ledger: ToolLedger = field(init=False)
    call_ids: dict[str, str] = field(default_factory=dict)
    """The product's call id to the case's."""

    def __post_init__(self) -> None:
        self.happenings = Happenings(
            self.case.events, lambda event, occurrence: self.perform(self, event, occurrence)
        )
        names = {tool["name"]: real_name(tool["name"]) for tool in self.case.tools}
        self.model = ScriptedModel(self.case, self.happenings, names)
        self.ledger = ToolLedger(self.case, self.happenings)

    @property
    def problems(self) -> list[str]:
        """What went wrong outside of the product's reach."""
        return [*self.model.problems, *self.happenings.problems]


def plain_case(title: str, text: str = "Done.") -> Case:
    """A case that is answered at once, for a bystander."""
    turn = {"text": text, "usage": {"input": 10, "output": 2}}
    data = {"format": 1, "run": {"input": "Say that you are done."}, "turns": [turn]}
    return Case(Path(f"{title}.json"), data)
