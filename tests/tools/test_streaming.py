import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import umbel
from loop.outcome import Errored, Returned, Unknown
from tools.capture import CaptureLost, MemoryCapture
from tools.chunks import Chunk
from tools.definition import Tool, from_function
from tools.execution import run_tool
from tools.result import encode_result
from tools.trial import TrialContext
from umbel.errors import Misconfigured
from umbel.names import Effect
from umbel.testing import call_tool
from umbel.tool import ToolFailed

SIZE = 50
SURROGATES = st.text(st.characters(codec=None), max_size=30)


class FullCapture(MemoryCapture):
    """Refuses every chunk after the first, as for a call that was settled meanwhile."""

    def write_chunk(self, chunk: Chunk) -> None:
        if self.chunks:
            raise CaptureLost("The call has been settled meanwhile.")
        super().write_chunk(chunk)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.chunks.CHUNK_CHARS", SIZE)
    monkeypatch.setattr("tools.streaming.CHUNK_CHARS", SIZE)


def run(
    function: Callable[..., object], effect: Effect = "read", writer: MemoryCapture | None = None
) -> Any:
    tool = Tool(
        name="t", description="d", input_schema={"type": "object"}, function=function, effect=effect
    )
    return run_tool(tool, "{}", TrialContext(), writer=writer)


def error_of(outcome: object) -> dict[str, str]:
    assert isinstance(outcome, Errored), outcome
    error = json.loads(outcome.text)["error"]
    assert isinstance(error, dict)
    return error


@given(st.lists(SURROGATES, max_size=8))
def test_pieces_are_stored_as_the_whole_text_would_be(pieces: list[str]) -> None:
    whole = encode_result("".join(pieces))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tools.chunks.CHUNK_CHARS", SIZE)
        patched.setattr("tools.streaming.CHUNK_CHARS", 7)
        memory = MemoryCapture()
        outcome = run(lambda: iter(pieces), writer=memory)
    assert isinstance(outcome, Returned)
    assert outcome.is_escaped == whole.is_escaped
    if outcome.chunked is None:
        assert (outcome.text, outcome.capture_id) == (whole.text, None)
    else:
        assert "".join(chunk.body for chunk in memory.chunks) == whole.text
        assert outcome.chunked.total_chars == len(whole.text)
        assert outcome.chunked.sha256 == whole.sha256
        assert outcome.capture_id == memory.capture_id


@given(st.binary(max_size=200), st.integers(1, 9))
def test_bytes_are_kept_without_loss_wherever_they_are_cut(data: bytes, size: int) -> None:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    outcome = run(lambda: iter(pieces))
    assert json.loads(outcome.text).encode("utf-8", "surrogateescape") == data


def test_text_after_a_character_that_was_cut_off_does_not_complete_it() -> None:
    text = json.loads(run(lambda: iter([b"\xc3", "\u00a9", b"\xa9"])).text)
    assert text == "\udcc3\u00a9\udca9"


def test_a_generator_function_is_a_tool() -> None:
    @umbel.tool(effect="read")
    def count(upto: int) -> Iterator[str]:
        """Count."""
        for number in range(upto):
            yield f"{number}\n"

    assert call_tool(count, upto=3) == "0\n1\n2\n"
    assert call_tool(count, upto=0) == ""
    assert call_tool(count, upto=100_000).endswith("\n99999\n")


def test_an_open_file_is_a_stream_and_is_closed() -> None:
    file = io.StringIO("one\ntwo\n")
    assert run(lambda: file).text == '"one\\ntwo\\n"'
    assert file.closed


def test_every_piece_is_a_sign_of_life() -> None:
    context = TrialContext()
    tool = Tool(
        name="t",
        description="d",
        input_schema={"type": "object"},
        function=lambda: iter("abc"),
        effect="read",
    )
    run_tool(tool, "{}", context)
    assert len(context.notes) == 3


def test_a_stream_that_fails_in_the_middle_is_no_result() -> None:
    def broken() -> Iterator[str]:
        yield "half"
        raise ValueError("broken")

    def refused() -> Iterator[str]:
        yield "half"
        raise ToolFailed("not there")

    assert error_of(run(broken))["message"] == "ValueError: broken"
    assert isinstance(run(broken, "mutation"), Unknown)
    assert error_of(run(refused, "mutation"))["code"] == "tool_failed"


def test_a_piece_that_is_no_text_ends_a_read_and_not_a_change() -> None:
    seen: list[str] = []

    def odd() -> Iterator[object]:
        try:
            yield from ("a", 1, "b")
            seen.append("done")
        finally:
            seen.append("closed")

    assert "type int" in error_of(run(odd))["message"]
    assert seen == ["closed"]
    outcome = run(odd, "mutation")
    assert seen == ["closed", "done", "closed"]
    assert "its change is done" in json.loads(outcome.text)["unreadable_result"]["message"]


@pytest.mark.usefixtures("small_chunks")
def test_a_call_that_was_settled_meanwhile_ends_its_read_and_not_its_change() -> None:
    given_out: list[int] = []

    def long() -> Iterator[str]:
        for number in range(10):
            given_out.append(number)
            yield "x" * 40

    assert "settled meanwhile" in error_of(run(long, writer=FullCapture()))["message"]
    assert len(given_out) < 10
    given_out.clear()
    outcome = run(long, "mutation", FullCapture())
    assert isinstance(outcome, Returned)
    assert outcome.chunked is None
    assert len(given_out) == 10


def test_a_stream_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.streaming.MAX_STREAM_CHARS", 1_000)

    def endless() -> Iterator[str]:
        while True:
            yield "x" * 300

    assert "more than 1000 characters" in error_of(run(endless))["message"]


@pytest.mark.usefixtures("small_chunks")
def test_a_long_value_is_chunked_as_a_long_stream_is() -> None:
    memory = MemoryCapture()
    outcome = run(lambda: {"rows": list(range(100))}, writer=memory)
    whole = encode_result({"rows": list(range(100))})
    assert "".join(chunk.body for chunk in memory.chunks) == whole.text
    assert outcome.chunked.sha256 == whole.sha256
    assert outcome.text == memory.chunks[0].body


def test_a_tool_that_promises_a_form_gives_one_value() -> None:
    @umbel.tool(effect="read", output_schema={"type": "string"})
    def stream() -> Iterator[str]:
        """Stream."""
        yield "a"

    with pytest.raises(Misconfigured, match="output_schema is for one whole value"):
        from_function(stream)

    @umbel.tool(effect="read", output_schema={"type": "string"})
    def hidden() -> object:
        """Give a stream after all."""
        return iter("abc")

    with pytest.raises(ToolFailed, match="no JSON form"):
        call_tool(hidden)
