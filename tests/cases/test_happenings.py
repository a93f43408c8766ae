"""Events of a case happen at their point, in order, once, and the point waits for them."""

import threading

from tests.cases.happenings import Event, Happenings, Occurrence


def recording(events: list[Event]) -> tuple[Happenings, list[str]]:
    done: list[str] = []

    def perform(event: Event, _: Occurrence) -> str:
        done.append(event["do"])
        return f"did {event['do']}"

    return Happenings(events, perform), done


def test_events_of_a_point_happen_in_their_order_and_once() -> None:
    happenings, done = recording(
        [
            {"at": "start", "do": "a"},
            {"at": "during_model:1", "do": "b"},
            {"at": "start", "do": "c"},
        ]
    )
    happenings.reach("start")
    happenings.reach("start")
    assert done == ["a", "c"]
    assert happenings.results == ["did a", None, "did c"]
    assert [event["do"] for event in happenings.unhandled()] == ["b"]


def test_repeated_event_happens_every_time() -> None:
    happenings, done = recording([{"at": "start", "do": "kill", "repeat": "always"}])
    happenings.reach("start")
    happenings.reach("start")
    assert done == ["kill", "kill"]


def test_event_after_another_follows_it() -> None:
    happenings, done = recording(
        [{"at": "after_event:2", "do": "last"}, {"at": "start", "do": "first"}]
    )
    handled = happenings.reach("start")
    assert done == ["first", "last"]
    assert len(handled) == 2


def test_events_of_a_concurrent_group_happen_at_the_same_time() -> None:
    barrier = threading.Barrier(3, timeout=5)

    def perform(_event: Event, _occurrence: Occurrence) -> None:
        barrier.wait()  # breaks unless all three are here together

    event = {"at": "start", "do": "x", "concurrent_group": "g"}
    happenings = Happenings([event, event, event], perform)
    happenings.reach("start")
    assert happenings.problems == []


def test_event_that_cannot_be_done_is_a_problem_of_the_case() -> None:
    def perform(_event: Event, _occurrence: Occurrence) -> None:
        raise ProcessLookupError("no such process")

    happenings = Happenings([{"at": "start", "do": "kill"}], perform)
    happenings.reach("start")
    assert "event 1 (kill) failed" in happenings.problems[0]
