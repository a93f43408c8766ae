"""Scenario 1: what is committed at each moment of a run of reads."""

from typing import Any

from tests.cases.happenings import Event, Occurrence
from tests.cases.record import Record, read_record
from tests.cases.system import CaseSystem
from tests.cases.world import World
from tests.runs.scenes import a_case, decided, follow, reads, text

IDS = ("c1", "c2", "c3")


def test_each_fact_is_committed_before_the_next_thing_happens(calm_system: CaseSystem) -> None:
    looks: dict[str, Record] = {}

    def look(world: World, event: Event, _: Occurrence) -> None:
        looks[event["at"]] = read_record(calm_system.stage.database, world.run_id)

    points = [f"{point}:{i}" for i in IDS for point in ("during_tool", "after_effect")]
    events = [{"at": at, "do": "look"} for at in [*points, "during_model:1", "during_model:2"]]
    case = a_case("order-of-record", [reads(*IDS), text()], events=events)
    world = calm_system.enter(case, perform=look)
    record = follow(calm_system, world)

    assert record.run["status"] == "completed"
    assert set(looks) == {event["at"] for event in events}
    for i in IDS:
        _assert_started_after_decision(looks[f"during_tool:{i}"], i)
        assert _state(looks[f"after_effect:{i}"], i) == ("started", None)
    asked = looks["during_model:2"]
    assert [_state(asked, i) for i in IDS] == [("returned", '"ok"')] * 3
    assert [(m["step"], m["state"]) for m in asked.model_calls] == [(1, "closed"), (2, "open")]
    assert [(m["step"], m["state"]) for m in looks["during_model:1"].model_calls] == [(1, "open")]


def test_usage_is_what_the_server_counted_and_the_log_has_every_event_once(
    calm_system: CaseSystem,
) -> None:
    world = calm_system.enter(a_case("usage", [reads(*IDS), text("Three notes.")]))
    record = follow(calm_system, world)

    assert [(m["input_tokens"], m["output_tokens"]) for m in record.model_calls] == [(100, 10)] * 2
    assert decided(record) == [(1, "dispatch"), (2, "answer")]
    assert [event["seq"] for event in record.events] == list(range(1, len(record.events) + 1))
    kinds = [event["kind"] for event in record.events]
    assert kinds[:6] == [
        "run.accepted",
        "step.claimed",
        "step.decided",
        *["call.ready"] * 3,
    ]
    assert kinds[6:9] == ["call.returned"] * 3
    assert kinds[9:] == ["step.claimed", "step.decided", "delivery.delivered", "run.completed"]
    assert [delivery["body"] for delivery in record.deliveries] == ["Three notes."]


def _assert_started_after_decision(seen: Record, case_id: str) -> None:
    [model_call] = seen.model_calls
    assert (model_call["state"], model_call["decision"]) == ("closed", "dispatch")
    assert (model_call["input_tokens"], model_call["output_tokens"]) == (100, 10)
    assert _state(seen, case_id) == ("started", None)


def _state(seen: Record, case_id: str) -> tuple[Any, Any]:
    call = seen.call(case_id)
    assert call is not None
    return call["state"], call["body"]
