"""What real workers log: every line tells whose it is, and no line tells a secret."""

import base64
import json
from collections.abc import Iterator
from getpass import getuser
from typing import Final

import pytest
import redis
from sqlalchemy import make_url

from tests.cases.system import CaseSystem, Cast
from tests.runs.conftest import MakeSystem
from tests.runs.scenes import a_case, follow, reads, text
from tests.worker_processes import PATIENT_CLOCKS, wait_until
from umbel.cli.worker_health import says_ready
from umbel.log_line import LogLine, parse
from umbel.names import CALL, LOOP_QUEUE, STEP, TOOLS_QUEUE

pytestmark = pytest.mark.slow

KEY: Final = "sk-planted-key-0001"
PASSWORD: Final = "planted-password-0002"
PLANTED: Final = "planted-words"
"""In whatever a person, a model, a tool or a stranger wrote."""
_IDLE: Final = ("nothing to do", "carried by this worker already", "not started: ")


def test_lines_between_claim_and_decision_tell_run_step_and_fence_and_no_secret(
    make_system: MakeSystem,
) -> None:
    system = _system_with_secrets(make_system)
    turns = [reads(f"{PLANTED}-1"), reads(f"{PLANTED}-2"), text(f"{PLANTED} of an answer")]
    case = a_case(
        "logged", turns, input=f"{PLANTED} and {KEY}", behaviour={"raise": f"{PLANTED} {KEY}"}
    )
    world = system.enter(case)
    record = follow(system, world)
    wait_until(lambda: len(_ends(_lines(system))) == 5, 60, "all tasks have logged their end")
    lines, run_id = _lines(system), world.run_id

    assert record.run["status"] == "completed"
    steps = [(run_id, n, n) for n in (1, 2, 3)]
    assert [_whose(line) for line in lines if line.logger == "httpx2"] == steps
    calls = [(run_id, n, n) for n in (1, 2)]
    assert sorted(_whose(line) for line in _ends(lines)) == sorted([*steps, *calls])
    assert [line.fields["call_id"] for line in _ends(lines) if "call_id" in line.fields] == [
        call["id"] for call in record.calls
    ]
    for secret in (KEY, PASSWORD, PLANTED):
        assert secret not in system.stage.workers.log()


def test_garbage_in_a_queue_is_logged_without_its_body_and_the_worker_goes_on(
    make_system: MakeSystem,
) -> None:
    system = make_system(Cast(environment=PATIENT_CLOCKS))
    workers = system.stage.workers
    with redis.Redis.from_url(system.stage.keys.url) as client:
        for queue, task in ((LOOP_QUEUE, STEP), (TOOLS_QUEUE, CALL)):
            key = f"{{{system.stage.redis_prefix}}}:{queue}"
            for garbage in _garbage(task):
                client.lpush(key, garbage)
            wait_until(lambda key=key: client.llen(key) == 0, 20, "everything is taken")  # type: ignore[misc]
    record = follow(system, system.enter(a_case("after-garbage", [reads("c1"), text()])))

    assert record.run["status"] == "completed"
    assert not workers.died_unasked()
    assert PLANTED not in workers.log()
    said = [(line.process[:4], line.message) for line in _lines(system)]
    assert not any("onnection to broker lost" in message for _, message in said)
    for process in ("step", "tool"):
        assert said.count((process, "message unreadable and dropped")) == 9
        assert said.count((process, "message of unknown kind dropped")) == 1
        assert said.count((process, "message for an unknown task dropped")) == 2
        assert said.count((process, "message invalid and dropped")) == 2
        assert said.count((process, "message not decodable and dropped")) == 3


def _garbage(task: str) -> Iterator[str]:
    """What no worker can use, each with the planted words in it."""
    ours = {"task": task, "id": "x"}
    planted = json.dumps([[PLANTED], {}, {}])
    typed = json.dumps([[{"__type__": "datetime", "__value__": PLANTED}], {}, {}])
    pickled = "application/x-python-serialize"
    yield f"{PLANTED} {{"
    yield json.dumps([PLANTED])
    yield "{}"
    yield json.dumps({"body": PLANTED, "headers": {}})
    yield json.dumps({**json.loads(_envelope({}, planted)), "body": f"{PLANTED}x"})
    yield json.dumps({**json.loads(_envelope({}, planted)), "headers": [PLANTED]})
    yield json.dumps({**json.loads(_envelope({}, planted)), "headers": {"task": {PLANTED: 1}}})
    yield json.dumps({**json.loads(_envelope({}, planted)), "content-type": {PLANTED: 1}})
    yield _envelope({**ours, "compression": "application/x-gzip"}, planted)
    yield _envelope({}, planted)
    yield _envelope({}, f"{{{PLANTED}")
    yield _envelope(ours, PLANTED, pickled)
    yield _envelope({}, PLANTED, pickled)
    yield _envelope({"task": "a.b", "id": "x", "argsrepr": PLANTED}, planted)
    yield _envelope({"task": "a.b", "id": PLANTED * 10_000}, planted)
    yield _envelope({**ours, "argsrepr": PLANTED}, planted)
    yield _envelope(ours, typed)
    yield _envelope({**ours, "eta": PLANTED}, planted)


def _envelope(headers: dict[str, str], body: str, kind: str = "application/json") -> str:
    return json.dumps(
        {
            "body": base64.b64encode(body.encode()).decode(),
            "content-type": kind,
            "content-encoding": "utf-8",
            "headers": headers,
            "properties": {
                "delivery_tag": "x",
                "delivery_info": {"exchange": "", "routing_key": "x"},
                "body_encoding": "base64",
            },
        }
    )


def _system_with_secrets(make_system: MakeSystem) -> CaseSystem:
    """A step worker and a tool worker that know a key and a password."""
    system = make_system(
        Cast(steps=0, tools=0, environment={**PATIENT_CLOCKS, "UMBEL_API_KEY": KEY})
    )
    workers = system.stage.workers
    url = make_url(workers.environment["UMBEL_DATABASE_URL"])
    url = url.set(username=url.username or getuser(), password=PASSWORD)
    workers.environment["UMBEL_DATABASE_URL"] = url.render_as_string(hide_password=False)
    workers.start("step", "gevent")
    workers.start("tool", "prefork")
    workers.wait_ready()
    return system


def _lines(system: CaseSystem) -> list[LogLine]:
    """What was logged. Celery's banner comes before readiness; after it all is JSON."""
    lines: list[LogLine] = []
    ready: set[str] = set()
    for shown in system.stage.workers.log().splitlines():
        name, _, written = shown.partition(" | ")
        line = parse(written)
        assert line is not None or name not in ready, shown
        if line is not None:
            lines.append(line)
            if says_ready(line):
                ready.add(name)
    return lines


def _ends(lines: list[LogLine]) -> list[LogLine]:
    """Ends of tasks that found something to do; on a slow machine some are rung again."""
    ended = [line for line in lines if " succeeded in " in line.message]
    return [line for line in ended if not any(idle in line.message for idle in _IDLE)]


def _whose(line: LogLine) -> tuple[object, ...]:
    return tuple(line.fields[key] for key in ("run_id", "step_no", "fence"))
