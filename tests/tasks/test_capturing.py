"""Results that are too long for one row, from the tool to the reader."""

import gc
import json
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import umbel
from models.database import Database, Row, Statement
from models.evidence import ThreadEvidence
from tests.factories import RunWish, a_run, a_tool
from tests.invariants import violations
from tests.models.story import call_ids, call_row, change, query, run_row
from tests.tasks.process import Process, a_process, asked, said
from tools.chunks import CHUNK_CHARS
from tools.definition import Tool, from_function
from umbel.contracts import CallId, RunId, ThreadId

LINE = "A line with é, \x00 and half of \ud83d.\n"
LINES = 3 * CHUNK_CHARS // len(LINE)


class CountingDatabase(Database):
    """Writes down how many statements each round trip held."""

    trips: list[int]

    def run(self, *statements: Statement) -> list[list[Row]]:
        self.trips.append(len(statements))
        return super().run(*statements)


@pytest.fixture(autouse=True)
def own_signal() -> Iterator[None]:
    """The process's own handler comes back after the test."""
    before = signal.getsignal(signal.SIGURG)
    yield
    signal.signal(signal.SIGURG, before)


def prepared(database: Database, tool: Tool) -> tuple[Process, RunId, CallId]:
    """A process and the one call of a run that asked for this tool."""
    process = a_process(database, tool)
    run = a_run(database, RunWish(tools=(tool,), policy={"permission_mode": "full_access"}))
    process.model.script.extend([asked((tool.name, "{}")), said()])
    process.step(run.run_id)
    [call_id] = call_ids(database, run.run_id)
    return process, run.run_id, call_id


def whole(database: Database, call_id: CallId) -> str:
    """The result as a reader gets it, page by page."""
    [row] = query(database, "SELECT thread_id, tenant FROM evidence")
    pages = ThreadEvidence(database, ThreadId(row["thread_id"]), row["tenant"])
    text, offset = "", 0
    while True:
        page = pages.read(call_id, offset, 100_000)
        text += page.text
        if page.next_offset is None:
            return text
        offset = page.next_offset


@pytest.mark.parametrize("effect", ["read", "mutation"])
def test_a_stream_is_stored_as_the_whole_text_would_be(database: Database, effect: str) -> None:
    @umbel.tool(effect=effect)  # type: ignore[arg-type]  # an Effect
    def lines() -> Iterator[str]:
        """List lines."""
        for _ in range(LINES):
            yield LINE

    process, run_id, call_id = prepared(database, from_function(lines))
    assert process.call(call_id) == "returned, recorded"
    assert json.loads(whole(database, call_id)) == LINE * LINES
    [row] = query(database, "SELECT body, view, is_escaped, total_chars FROM evidence")
    assert (row["body"], row["is_escaped"]) == (None, True)
    assert row["view"].startswith('"A line with é, \\u0000 and half of \\ud83d.\\nA line')
    assert f"of {row['total_chars']}," in row["view"]
    [chunks] = query(
        database, "SELECT count(*) AS n, max(length(body)) AS most FROM evidence_chunks"
    )
    assert chunks["n"] > 3
    assert chunks["most"] <= CHUNK_CHARS
    process.carry_all()
    assert run_row(database, run_id)["status"] == "completed"
    assert violations(database) == []


def test_a_short_stream_and_a_short_value_cost_the_same_and_no_more_than_ever(
    database: Database,
) -> None:
    trips = []
    for give in (lambda **_: "text", lambda **_: iter(["te", "xt"])):
        change(database, "DELETE FROM evidence")
        process, _, call_id = prepared(database, a_tool("look", give))
        process.runtime.specs.get(RunId(call_row(database, call_id)["run_id"]))
        database.__class__, database.trips = CountingDatabase, []  # type: ignore[attr-defined]
        assert process.call(call_id) == "returned, recorded"
        trips.append(database.trips)  # type: ignore[attr-defined]
        database.__class__ = Database
        assert whole(database, call_id) == '"text"'
    # Load the call and its rules; start; lock the run and settle.
    assert trips == [[2, 1, 2]] * 2
    assert query(database, "SELECT id FROM captures") == []


def test_a_long_value_is_stored_in_chunks_too(database: Database) -> None:
    value = {"rows": ["x" * 1000] * 1000}
    process, _, call_id = prepared(database, a_tool("look", lambda **_: value))
    assert process.call(call_id) == "returned, recorded"
    assert json.loads(whole(database, call_id)) == value
    assert len(query(database, "SELECT start_char FROM evidence_chunks")) == 4


def test_a_stream_that_fails_leaves_nothing_that_is_kept(database: Database) -> None:
    def broken(**_: object) -> Iterator[str]:
        yield "x" * 2 * CHUNK_CHARS
        raise ValueError("broken")

    process, _, call_id = prepared(database, a_tool("look", broken))
    assert process.call(call_id) == "errored, recorded"
    assert "broken" in whole(database, call_id)
    assert query(database, "SELECT is_kept FROM captures") == [{"is_kept": False}]
    assert violations(database, at_rest=False) == []


def test_a_stream_of_a_worker_that_ends_is_dropped_and_runs_again(database: Database) -> None:
    def lines(**_: object) -> Iterator[str]:
        yield "x" * 2 * CHUNK_CHARS
        process.runtime.draining.set()
        yield "y"

    process, _, call_id = prepared(database, a_tool("look", lines))
    assert process.call(call_id) == "handed back: this worker is about to end"
    assert call_row(database, call_id)["attempt"] == 0
    other = a_process(database, a_tool("look", lambda **_: iter(["z" * 2 * CHUNK_CHARS])))
    assert other.call(call_id) == "returned, recorded"
    assert whole(database, call_id) == f'"{"z" * 2 * CHUNK_CHARS}"'
    assert violations(database, at_rest=False) == []


def test_a_read_that_was_given_to_others_meanwhile_writes_no_more(database: Database) -> None:
    pieces = 0

    def lines(**_: object) -> Iterator[str]:
        nonlocal pieces
        for _number in range(20):
            pieces += 1
            yield "x" * CHUNK_CHARS
            change(database, "UPDATE calls SET holder = 'wrk_other' WHERE state = 'started'")

    process, _, call_id = prepared(database, a_tool("look", lines))
    assert process.call(call_id) == "errored, too late"
    assert pieces < 5


def test_a_long_stream_is_written_and_read_in_the_memory_of_a_chunk(database: Database) -> None:
    def lines(**_: object) -> Iterator[str]:
        for number in range(11_000):
            yield f"{number}: a line of about a thousand characters {'.' * 960}\n"

    process, _, call_id = prepared(database, a_tool("look", lines))
    with memory() as most:
        assert process.call(call_id) == "returned, recorded"
        assert most() < 12 * CHUNK_CHARS
    [row] = query(database, "SELECT thread_id, tenant, total_chars FROM evidence")
    assert row["total_chars"] > 40 * CHUNK_CHARS
    pages = ThreadEvidence(database, ThreadId(row["thread_id"]), row["tenant"])
    with memory() as most:
        place = pages.find_line(call_id, 10_000)
        assert place is not None
        assert pages.read(call_id, place, 7).text == "9999: a"
        assert pages.read(call_id, row["total_chars"] // 2, 1000).next_offset is not None
        assert most() < 4 * CHUNK_CHARS


@contextmanager
def memory() -> Iterator[Callable[[], int]]:
    """How many bytes Python held at most in the block, more than before it."""
    gc.collect()
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
