import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.sse import SseDecoder, SseEvent


def decode(*chunks: bytes) -> list[SseEvent]:
    decoder = SseDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.finish()


def data_of(*chunks: bytes) -> list[str]:
    return [event.data for event in decode(*chunks)]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_of_the_standard_ends_a_line(line_end: bytes) -> None:
    raw = line_end.join([b"data: a", b"data: b", b"", b"data:c", b"", b""])
    assert data_of(raw) == ["a\nb", "c"]


@pytest.mark.parametrize(
    "frame",
    [b"data:\n\n", b"data\n\n", b"data:  \n\n", b"retry: 3\n\n", b"id: 7\n\n", b"event: ping\n\n",
     b": comment\n\n", b"event: ping\ndata:\n\n"],
)  # fmt: skip
def test_frames_without_data_are_no_events(frame: bytes) -> None:
    assert data_of(frame, b"data: x\n\n") == ["x"]


def test_name_of_an_event_does_not_leak_into_the_next() -> None:
    events = decode(b"event: error\ndata: a\n\ndata: b\n\n")
    assert [(event.name, event.data) for event in events] == [("error", "a"), ("", "b")]


def test_byte_order_mark_is_dropped() -> None:
    assert data_of(b"\xef\xbb", b"\xbfdata: x\n\n") == ["x"]


def test_bytes_that_are_not_utf8_become_the_replacement_character() -> None:
    assert data_of(b"data: a\xff\xfeb\xe4\n\n") == ["a\ufffd\ufffdb\ufffd"]


def test_event_without_a_closing_blank_line_is_marked_as_open() -> None:
    assert decode(b"data: x") == [SseEvent("", ("x",), is_closed=False)]


def test_crlf_shared_by_two_chunks_is_one_line_end() -> None:
    assert data_of(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == ["a\nb"]


PARTS = [b"data: x", b"event: e", b":c", b"\r", b"\n", b"\r\n", b"\xef\xbb\xbf", b"\xf0\x9f"]
RAW = st.binary(max_size=200) | st.lists(st.sampled_from(PARTS)).map(b"".join)


@given(RAW, st.data())
def test_result_does_not_depend_on_how_the_bytes_are_cut(raw: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert decode(*pieces) == decode(raw)
