"""Any request that was sent can be written again from the record alone."""

import pytest

from providers.chat import ChatProvider
from providers.contract import Endpoint, ModelProvider
from tasks.rebuilding import rebuild_request
from tests.cases.system import CaseSystem
from tests.runs.scenes import a_case, follow, reads, text
from umbel.contracts import RunId
from umbel.errors import InvariantBroken, NotFound
from umbel.names import WireName


def test_every_request_can_be_rebuilt_byte_for_byte(calm_system: CaseSystem) -> None:
    failing = {"error": {"status": 503, "code": "busy", "retry_after": 0.01}}
    turns = [reads("c1", "c2"), failing, text(""), reads("c3"), text("Three {notes}.")]
    case = a_case("rebuilding", turns)
    world = calm_system.enter(case)
    record = follow(calm_system, world)
    database = calm_system.stage.database
    # Another process, another endpoint: nothing but the record decides the bytes.
    elsewhere = providers_for("https://api.mistral.ai/v1")
    rebuilt = [
        rebuild_request(
            database, elsewhere, RunId(world.run_id), row["step"], row["attempt"]
        ).sha256
        for row in record.model_calls
    ]
    assert [(row["step"], row["attempt"]) for row in record.model_calls] == [
        (1, 1),
        (2, 1),
        (2, 2),
        (2, 3),
        (3, 1),
    ]
    assert rebuilt == [request.sha for request in world.model.requests]


def providers_for(base_url: str) -> dict[WireName, ModelProvider]:
    return {"chat": ChatProvider(Endpoint(base_url=base_url, api_key=""))}


def test_a_record_that_gives_other_bytes_is_not_passed_off_as_the_request(
    calm_system: CaseSystem,
) -> None:
    world = calm_system.enter(a_case("changed-record", [reads("c1"), text()]))
    follow(calm_system, world)
    run_id, database = RunId(world.run_id), calm_system.stage.database
    providers = providers_for("https://127.0.0.1")
    forge = 'UPDATE model_calls SET reply = replace(reply, \'"text":""\', \'"text":"forged"\')'
    database.run((f"{forge} WHERE run_id = %(run)s AND step = 1", {"run": run_id}))
    assert rebuild_request(database, providers, run_id, 1, 1).body
    with pytest.raises(InvariantBroken, match="other bytes"):
        rebuild_request(database, providers, run_id, 2, 1)
    with pytest.raises(NotFound, match="no recorded attempt 7"):
        rebuild_request(database, providers, run_id, 2, 7)
