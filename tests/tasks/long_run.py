"""A run of very many steps in one process, and what each step reads, sends and takes.

Everything is the product's own but the model: it reads on and on, and writes notes when asked to.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from loop.request import ModelRequest
from loop.response import ModelTurn, Usage
from models.database import Database, Row, Statement
from providers.chat import ChatProvider
from providers.contract import Endpoint, RequestForm, StreamControl
from tests.factories import RunWish, a_run, a_tool
from tests.tasks.process import ScriptedModel, a_process, asked
from umbel.contracts import RunId

RESULT_CHARS: Final = 2_000
WINDOW: Final = 8_000
"""Small, so that a dozen results fill it."""
_NOTES: Final = "What was found so far, in some words. " * 40


@dataclass(frozen=True, slots=True)
class StepCost:
    """What one step cost."""

    step: int
    sent_bytes: int
    """The step's own request."""
    read_bytes: int
    """Text that PostgreSQL gave, for the step and its call."""
    read_rows: int
    summaries: int
    """Requests for a summary."""
    seconds: float


class CountingDatabase(Database):
    """Counts what it is given."""

    rows = 0
    text_bytes = 0

    def run(self, *statements: Statement) -> list[list[Row]]:
        """See `Database.run`."""
        found = super().run(*statements)
        for rows in found:
            self.rows += len(rows)
            self.text_bytes += sum(
                len(value) for row in rows for value in row.values() if isinstance(value, str)
            )
        return found


class ReadingModel(ScriptedModel):
    """Asks for the next page, for ever; counts as an endpoint does."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        """Of the steps' requests."""
        self.summaries = 0
        self._pages = count(1)
        self._writer = ChatProvider(Endpoint("http://127.0.0.1:1/v1", api_key=""))

    def form(self) -> RequestForm:
        """As a real endpoint's."""
        return self._writer.form()

    def render(self, request: ModelRequest, form: RequestForm) -> bytes:
        """As for a real endpoint."""
        return self._writer.render(request, form)

    def stream(self, request: ModelRequest, body: bytes, control: StreamControl) -> ModelTurn:
        """The next page, or notes."""
        usage = Usage(input_tokens=len(body) // 4, output_tokens=20, total_tokens=len(body) // 4)
        if request.purpose == "compact":
            self.summaries += 1
            return ModelTurn(text=_NOTES, usage=usage, finish="stop")
        self.sizes.append(len(body))
        turn = asked(("page", f'{{"n":{next(self._pages)}}}'))
        return turn.model_copy(update={"usage": usage})


def carry_long_run(url: str, steps: int, **wish: Any) -> Iterator[StepCost]:
    """Carry a run through so many steps, and tell of each."""
    database = CountingDatabase(url, role="long", pool_size=2)
    tool = a_tool("page", lambda n: f"page {n}: " + "x" * RESULT_CHARS)
    process, model = a_process(database, tool), ReadingModel()
    object.__setattr__(process.runtime, "providers", {"chat": model})
    known: dict[str, Any] = {"tools": (tool,), "window": WINDOW, "output_reserve": 1_000}
    run_id = a_run(database, RunWish(**(known | wish))).run_id
    try:
        for step in range(1, steps + 1):
            database.rows = database.text_bytes = 0
            summaries, began = model.summaries, time.perf_counter()
            process.step(run_id, step)
            for call_id in list(process.bell.calls):
                process.bell.calls.remove(call_id)
                process.call(call_id)
            yield StepCost(
                step=step,
                sent_bytes=model.sizes[-1],
                read_bytes=database.text_bytes,
                read_rows=database.rows,
                summaries=model.summaries - summaries,
                seconds=time.perf_counter() - began,
            )
    finally:
        database.close()


def run_of(database: Database) -> RunId:
    """The only run."""
    [rows] = database.run(("SELECT id FROM runs", {}))
    return RunId(rows[0]["id"])
