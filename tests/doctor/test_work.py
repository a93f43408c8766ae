"""What stands still, what nobody knows, and the record against its rules."""

from typing import Any

from models.database import Database
from models.invariants import INVARIANTS
from models.workers import Capacity, register
from tests.doctor.looking import look_at, look_at_all, settings_of
from tests.factories import RunWish, a_run, a_tool
from tests.models.story import (
    CHANGE,
    READ,
    beat,
    change,
    claimed,
    dispatched,
    made_unknown,
    started,
)
from tests.services import Place
from tools.registry import ToolRegistry, load_registry
from umbel.agent_settings import AgentSettings
from umbel.contracts import WorkerId
from umbel.names import TOOLS_QUEUE

OLD_EVENTS = "UPDATE events SET at = at - interval '2 minutes'"
PAST_DEADLINE = "UPDATE calls SET deadline_at = now() - interval '1 minute' WHERE id = %(id)s"


def test_an_idle_system_has_nothing_to_do(place: Place) -> None:
    found = look_at_all(("work", "unknown"), settings_of(place))
    assert found["work"].found == "nothing in flight"
    assert found["unknown"].found == "no unknown outcome, no paused run"


def test_a_run_that_nobody_takes_is_stuck_after_a_minute(place: Place, database: Database) -> None:
    run_id = a_run(database).run_id
    assert look_at("work", settings_of(place)).state == "ok"
    change(database, OLD_EVENTS)
    finding = look_at("work", settings_of(place))
    assert finding.state == "problem"
    assert f"1 runs ready for over 60 s ({run_id})" in finding.found
    assert "Start the worker" in str(finding.remedy)


def test_a_run_that_waits_for_its_time_is_not_stuck(place: Place, database: Database) -> None:
    run_id = a_run(database).run_id
    change(database, OLD_EVENTS)
    change(
        database,
        "UPDATE runs SET not_before = now() + interval '1 hour' WHERE id = %(id)s",
        id=run_id,
    )
    assert look_at("work", settings_of(place)).state == "ok"


def test_a_call_that_nobody_takes_is_stuck_after_a_minute(place: Place, database: Database) -> None:
    beat(database)
    call_id = dispatched(database, READ).calls[0]
    change(database, OLD_EVENTS)
    assert f"1 calls ready for over 60 s ({call_id})" in look_at("work", settings_of(place)).found


def test_work_in_dead_hands_needs_a_beat(place: Place, database: Database) -> None:
    run_id = claimed(database).run_id
    finding = look_at("work", settings_of(place))
    assert finding.state == "problem"
    assert f"1 held by processes that are gone ({run_id})" in finding.found
    assert "Start beat" in str(finding.remedy)
    beat(database)
    assert look_at("work", settings_of(place)).state == "ok"


def test_a_call_past_its_deadline_is_named(place: Place, database: Database) -> None:
    beat(database)
    call_id = dispatched(database, CHANGE).calls[0]
    started(database, call_id)
    assert look_at("work", settings_of(place)).state == "ok"
    change(database, PAST_DEADLINE, id=call_id)
    assert f"1 calls past their deadline ({call_id})" in look_at("work", settings_of(place)).found


def test_unknown_outcomes_are_listed_for_a_person(place: Place, database: Database) -> None:
    beat(database)
    call_id = dispatched(database, CHANGE).calls[0]
    started(database, call_id)
    change(database, PAST_DEADLINE, id=call_id)
    assert made_unknown(database, call_id) is not None
    finding = look_at("unknown", settings_of(place))
    assert finding.state == "warning"
    assert f"1 changes with an unknown outcome ({call_id})" in finding.found
    assert "paused runs: 1 unknown_outcome" in finding.found
    assert "whether each one happened" in str(finding.remedy)


def test_workers_are_counted_by_role_and_the_silent_apart(place: Place, database: Database) -> None:
    assert look_at("workers", settings_of(place)).state == "problem"
    beat(database)
    finding = look_at("workers", settings_of(place))
    assert finding.found == "processes: 1 step (gevent)"
    change(database, "UPDATE workers SET beat_at = now() - interval '1 minute'")
    silent = look_at("workers", settings_of(place))
    assert silent.state == "problem"
    assert "1 silent for over 15 s" in silent.found


def test_a_tool_that_a_run_in_flight_needs_is_missed_by_name(
    place: Place, database: Database
) -> None:
    run_id = a_run(database, RunWish(tools=(a_tool("reap"),))).run_id
    finding = look_at_all(("tools", "migrations"), settings_of(place))["tools"]
    assert finding.state == "problem"
    assert f"need reap ({run_id}), which nothing here provides" in finding.found
    assert "UMBEL_TOOLS" in str(finding.remedy)


def test_a_tool_that_changed_under_a_run_is_a_warning(place: Place, database: Database) -> None:
    a_run(database, RunWish(tools=(a_tool("read_file"),)))
    finding = look_at_all(("tools", "migrations"), settings_of(place))["tools"]
    assert finding.state == "warning"
    assert "accepted with another read_file" in finding.found


def test_a_tool_that_no_living_tool_worker_has_is_a_problem(
    place: Place, database: Database
) -> None:
    offered = load_registry(()).select(["read_file"])
    run_id = a_run(database, RunWish(tools=offered)).run_id
    look = ("tools", "migrations")
    assert look_at_all(look, settings_of(place))["tools"].state == "ok", "no worker, no opinion"
    mine: dict[str, Any] = {"role": "tool", "pool": "prefork", "pid": 1}
    mine["capacity"] = Capacity(1, (TOOLS_QUEUE,))
    register(database, WorkerId("wrk_old"), node="tool@old", **mine)
    finding = look_at_all(look, settings_of(place))["tools"]
    assert finding.state == "problem"
    assert f"no living tool worker has read_file ({run_id})" in finding.found
    new = ToolRegistry(offered).digests()
    register(database, WorkerId("wrk_new"), node="tool@new", tools=new, **mine)
    assert look_at_all(look, settings_of(place))["tools"].state == "ok"


def test_a_module_without_tools_or_an_agent_with_unknown_ones_is_a_problem(
    place: Place,
) -> None:
    broken = look_at("tools", settings_of(place, tools=("no_such_module_of_tools",)))
    assert broken.state == "problem"
    assert "no_such_module_of_tools" in broken.found
    assert "UMBEL_TOOLS" in str(broken.remedy)
    agents = {"gardener": AgentSettings(tools=("prune",))}
    finding = look_at("tools", settings_of(place, agents=agents))
    assert "agent 'gardener'" in finding.found
    assert "prune" in finding.found


def test_a_healthy_record_breaks_no_rule(place: Place, database: Database) -> None:
    finding = look_at("invariants", settings_of(place))
    assert finding.state == "ok"
    assert finding.found == f"{len(INVARIANTS) + 1} rules checked"


def test_rules_that_hold_at_rest_are_left_out_while_something_moves(
    place: Place, database: Database
) -> None:
    beat(database)
    started(database, dispatched(database, CHANGE).calls[0])
    finding = look_at("invariants", settings_of(place))
    assert finding.state == "ok", finding
    assert finding.facts["left_out"] == sum(rule.only_at_rest for rule in INVARIANTS)


def test_a_broken_rule_is_reported_with_ids_and_what_it_means(
    place: Place, database: Database
) -> None:
    ids = sorted(a_run(database).run_id for _ in range(5))
    change(database, "UPDATE runs SET next_seq = next_seq + 1")
    finding = look_at("invariants", settings_of(place))
    assert finding.state == "problem"
    assert "event numbers have a gap: 5" in finding.found
    assert "misses an event" in finding.found
    broken: Any = finding.facts["broken"]
    assert [(rule["name"], rule["count"]) for rule in broken] == [("event_gap", 5)]
    assert set(broken[0]["first"]) < set(ids)


def test_every_rule_has_a_name_of_its_own_and_says_what_it_means() -> None:
    assert len({rule.name for rule in INVARIANTS}) == len(INVARIANTS)
    assert all(rule.name.isidentifier() and rule.means and rule.broken for rule in INVARIANTS)
