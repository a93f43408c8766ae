import threading
import time
from collections.abc import Callable

import pytest

from loop.response import ModelTurn
from providers.contract import AbortReason, StreamHandle, StreamLimits
from tests.providers.endpoint import (
    HEAD,
    Visit,
    ask,
    control,
    failure,
    provider_at,
    says,
    serving,
)
from tests.providers.wire import chunk, end, event, text

QUICK = StreamLimits(silence_seconds=0.3, first_event_seconds=0.3, progress_seconds=0.3)


def silent_before_headers(visit: Visit) -> None:
    visit.hang()


@pytest.mark.parametrize(
    "answer",
    [
        silent_before_headers,
        says(then=Visit.hang),
        says(then=lambda visit: visit.drip(b": keep-alive\n\n", 0.05)),
        says(text("a"), then=Visit.hang),
        says(text("a"), then=lambda visit: visit.drip(b": keep-alive\n\n", 0.05)),
        says(text("a"), then=lambda visit: visit.drip(b"d", 0.05)),
        says(text("a"), then=lambda visit: visit.drip(chunk({"content": ""}), 0.05)),
        says(text("a"), then=lambda visit: visit.drip(event({"choices": []}), 0.05)),
    ],
    ids=["before headers", "behind headers", "comments first", "silence", "comments",
         "single bytes", "empty deltas", "empty events"],
)  # fmt: skip
def test_stream_without_progress_is_cut_as_stalled(answer: Callable[[Visit], None]) -> None:
    with serving(answer) as server:
        start = time.monotonic()
        found = failure(ask(server.base_url, control(QUICK)))
        took = time.monotonic() - start
    assert (found.error_class, found.is_retryable) == ("stall", True)
    assert 0.25 < took < 3.0


def test_slow_stream_that_makes_progress_is_left_alone() -> None:
    def trickle(visit: Visit) -> None:
        visit.send(HEAD)
        for _ in range(8):
            visit.over.wait(0.25)
            visit.chunk(text("a"))
        visit.chunk(end())
        visit.end()

    limits = StreamLimits(silence_seconds=1.5, first_event_seconds=1.5, progress_seconds=1.5)
    provider_at("http://127.0.0.1:9/v1").prepare()  # a machine under load takes its time
    with serving(trickle) as server:
        turn = ask(server.base_url, control(limits))
    assert (turn.text, turn.failure) == ("aaaaaaaa", None)


def test_comments_keep_a_queued_request_alive_until_its_first_event() -> None:
    def queue(visit: Visit) -> None:
        visit.send(HEAD)
        for _ in range(8):
            visit.over.wait(0.1)
            visit.chunk(b": queued\n\n")
        visit.chunk(text("now") + end())
        visit.end()

    limits = StreamLimits(silence_seconds=1.5, first_event_seconds=9, progress_seconds=0.3)
    with serving(queue) as server:
        assert ask(server.base_url, control(limits)).text == "now"


@pytest.mark.parametrize(
    ("answer", "has_text"),
    [(silent_before_headers, False), (says(text("Work"), then=Visit.hang), True)],
    ids=["before headers", "in the middle"],
)
def test_abort_wakes_the_reader_within_milliseconds(
    answer: Callable[[Visit], None], *, has_text: bool
) -> None:
    reached = threading.Event()

    def announced(visit: Visit) -> None:
        reached.set()
        answer(visit)

    said = threading.Event()
    handle = StreamHandle()
    turns: list[tuple[float, ModelTurn]] = []

    def read(base_url: str) -> None:
        turn = ask(base_url, control(handle=handle, on_delta=lambda *_: said.set()))
        turns.append((time.monotonic(), turn))

    with serving(announced) as server:
        reader = threading.Thread(target=read, args=(server.base_url,))
        reader.start()
        assert (said if has_text else reached).wait(20)
        aborted_at = time.monotonic()
        handle.abort("stop")
        reader.join(20)
    woke_at, turn = turns[0]
    assert woke_at - aborted_at < 0.5
    assert failure(turn).error_class == "aborted"
    assert turn.text == ("Work" if has_text else "")
    assert turn.usage.is_estimated == has_text


def test_abort_before_the_start_sends_nothing() -> None:
    handle = StreamHandle()
    handle.abort("drain")
    with serving(says(text("x"), end())) as server:
        turn = ask(server.base_url, control(handle=handle))
    assert failure(turn).error_class == "aborted"
    assert server.visits == []


def test_abort_behind_the_finish_keeps_the_paid_answer() -> None:
    handle = StreamHandle()
    parts = (text("whole"), chunk({}, "stop"), text("more"))

    def on_delta(_kind: str, piece: str) -> None:
        if piece == "more":
            handle.abort("steer")

    with serving(says(*parts, then=Visit.hang)) as server:
        turn = ask(server.base_url, control(handle=handle, on_delta=on_delta))
    assert (turn.failure, turn.finish) == (None, "stop")


def test_owner_is_asked_while_the_stream_is_open_and_can_end_it() -> None:
    answers: list[AbortReason | None] = [None, "lease_lost"]
    limits = StreamLimits(silence_seconds=20, first_event_seconds=20, progress_seconds=20)
    handle = StreamHandle()
    with serving(says(text("a"), then=Visit.hang)) as server:
        turn = ask(server.base_url, control(limits, handle=handle, watch=lambda: answers.pop(0)))
    assert failure(turn).error_class == "aborted"
    assert (handle.reason, answers) == ("lease_lost", [])


def test_failing_look_up_of_the_owner_does_not_stop_the_clocks() -> None:
    def broken() -> AbortReason | None:
        raise ConnectionError("redis is down")

    limits = StreamLimits(silence_seconds=1.3, first_event_seconds=1.3, progress_seconds=1.3)
    with serving(says(text("a"), then=Visit.hang)) as server:
        assert failure(ask(server.base_url, control(limits, watch=broken))).error_class == "stall"
