"""Real workers carry runs; two control workers show what came of them, and the record agrees."""

import contextlib
import os
import re
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.request import urlopen

import pytest
from sqlalchemy import make_url

from tests.cases.system import CaseSystem, Cast, case_system
from tests.models.story import change, query
from tests.runs.scenes import a_case, asks, follow, reads, text, write_tools
from tests.services import Services
from tests.tasks.test_metrics import Samples, samples_of
from tests.worker_processes import FAST_CLOCKS, Worker, wait_until
from umbel.names import CONTROL_QUEUE

pytestmark = pytest.mark.slow

SECONDS: Final = 30.0
GROWING: Final = re.compile(r"_(total|bucket|count|sum)$")


@dataclass(frozen=True, slots=True)
class Watched:
    """A system of every kind of process, and where its two control workers serve."""

    system: CaseSystem
    services: Services
    addresses: tuple[str, str]
    controls: tuple[Worker, Worker]

    def page(self, of: int = 0) -> Samples:
        """What the one or the other shows now."""
        with urlopen(f"http://{self.addresses[of]}/metrics", timeout=10) as answer:
            return samples_of(answer.read().decode())

    def settled(self) -> dict[tuple[str, str], float]:
        """Settled runs by the counts."""
        found = self.page().get("umbel_runs_settled_total", {})
        return {(dict(key)["status"], dict(key)["reason"]): n for key, n in found.items()}

    def settled_by_record(self) -> dict[tuple[str, str], float]:
        """Settled runs by the record; nobody has resumed one."""
        rows = query(
            self.system.stage.database,
            "SELECT status, coalesce(reason, '') AS reason, count(*)::float8 AS n FROM runs"
            " WHERE settled_at IS NOT NULL GROUP BY status, reason",
        )
        return {(row["status"], row["reason"]): row["n"] for row in rows}

    def counts_agree(self) -> bool:
        """Whether everything that was counted has been written."""
        return self.settled() == self.settled_by_record()


@pytest.fixture(scope="module")
def watched(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """One worker of each kind, beat and two control workers."""
    tools = write_tools(tmp_path_factory.mktemp("tools"))
    with case_system(services, [tools], Cast(environment=FAST_CLOCKS)) as system:
        addresses = (free_address(), free_address())
        first, second = (
            system.stage.workers.start(
                "control", concurrency=1, environment={"UMBEL_METRICS_ADDRESS": address}
            )
            for address in addresses
        )
        system.stage.workers.wait_ready()
        found = Watched(system, services, addresses, (first, second))
        for of in (0, 1):
            wait_until(lambda of=of: is_served(found, of), SECONDS, "the page is served")  # type: ignore[misc]
        yield found


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def is_served(watched: Watched, of: int) -> bool:
    with contextlib.suppress(OSError):
        return bool(watched.page(of))
    return False


def carry_one(watched: Watched, title: str) -> None:
    follow(watched.system, watched.system.enter(a_case(title, [reads("c1"), text()])))


def test_the_page_agrees_with_the_record(watched: Watched) -> None:
    system, database = watched.system, watched.system.stage.database
    killed = [{"at": "after_effect:c1", "do": "kill"}]
    unknown = system.enter(a_case("unknown", [asks(("c1", "send_mail")), text()], events=killed))
    broken = system.enter(a_case("broken", [text()]), ring=False)
    change(
        database,
        "UPDATE run_specs SET policy = '[]', policy_sha = sha256('[]') WHERE run_id = %(id)s",
        id=broken.run_id,
    )
    carry_one(watched, "plain")
    follow(system, unknown)
    follow(system, broken)
    wait_until(watched.counts_agree, SECONDS, "all counts are written")

    page = watched.page()
    assert watched.settled() == {
        ("completed", ""): 1,
        ("paused", "unknown_outcome"): 1,
        ("failed", "corrupt_record"): 1,
    }
    assert page["umbel_runs"][("reason", "unknown_outcome"), ("status", "paused")] == 1
    assert page["umbel_unknown_receipts_open"] == {(): 1}
    assert page["umbel_unknown_outcomes_total"] == {(): 1}
    [calls] = query(
        database,
        "SELECT count(*)::float8 AS n, sum(input_tokens)::float8 AS tokens FROM model_calls"
        " WHERE state = 'closed'",
    )
    assert sum(page["umbel_model_calls_total"].values()) == calls["n"]
    inputs = {k: n for k, n in page["umbel_tokens_total"].items() if ("kind", "input") in k}
    assert sum(inputs.values()) == calls["tokens"]
    assert set(page["umbel_up"].values()) == {1}
    workers = {dict(key)["role"]: n for key, n in page["umbel_workers"].items()}
    alive = query(database, "SELECT count(*)::float8 AS n FROM workers")[0]["n"]
    assert sum(workers.values()) == alive
    assert workers["step"] == 1
    assert workers["control"] == 2


def test_every_control_worker_shows_the_same_counts(watched: Watched) -> None:
    carry_one(watched, "seen-by-both")
    wait_until(watched.counts_agree, SECONDS, "all counts are written")
    name = "umbel_runs_settled_total"
    wait_until(
        lambda: watched.page(0)[name] == watched.page(1)[name], SECONDS, "both show the same"
    )


def test_counts_never_decrease_when_workers_are_killed(watched: Watched) -> None:
    workers = watched.system.stage.workers
    carry_one(watched, "before-the-kill")
    wait_until(watched.counts_agree, SECONDS, "all counts are written")
    before = watched.page()
    workers.kill_and_replace(workers.of_role("step")[0].pid)
    workers.kill_and_replace(workers.of_role("tool")[0].pid)
    workers.wait_ready()
    carry_one(watched, "after-the-kill")
    wait_until(watched.counts_agree, SECONDS, "all counts are written")
    after = watched.page()
    for name, values in before.items():
        if GROWING.search(name):
            for labels, n in values.items():
                assert after[name][labels] >= n, (name, labels)


def test_counts_of_a_worker_that_ends_cleanly_are_not_lost(watched: Watched) -> None:
    workers = watched.system.stage.workers
    slow = {"UMBEL_BEAT_SECONDS": "6", "UMBEL_DEAD_AFTER_SECONDS": "60"}
    workers.kill(workers.of_role("step")[0].pid)
    last = workers.start("step", "gevent", environment=slow)
    workers.wait_ready()
    carry_one(watched, "the-last")
    end(watched, last)
    workers.start("step", "gevent")
    wait_until(watched.counts_agree, SECONDS, "what it counted last is written")


def test_messages_that_are_none_of_ours_are_counted(watched: Watched) -> None:
    app = watched.system.stage.ringer._app
    app.send_task("odd.task", queue=CONTROL_QUEUE)
    app.send_task("odd.task", queue=CONTROL_QUEUE, compression="zlib")
    counts = {(("cause", cause),): 1 for cause in ("unknown_task", "undecodable")}
    wait_until(
        lambda: watched.page().get("umbel_messages_rejected_total") == counts,
        SECONDS,
        "the messages are counted",
    )


def test_the_page_answers_while_postgresql_refuses_and_knows_everything_afterwards(
    watched: Watched,
) -> None:
    before = watched.page()["umbel_runs_settled_total"]
    databases = watched.services.databases
    url = watched.system.stage.database.engine.url
    name = make_url(url).database
    databases._execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    try:
        databases._execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        wait_until(lambda: is_up(watched) == 0, SECONDS, "PostgreSQL is said to be away")
        assert "umbel_broker_messages" in watched.page()
    finally:
        databases._execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    wait_until(lambda: is_up(watched) == 1, SECONDS, "it is back")
    assert watched.page()["umbel_runs_settled_total"] == before
    assert not watched.controls[0].has_ended.is_set()


def is_up(watched: Watched) -> float:
    return watched.page()["umbel_up"][(("part", "postgresql"),)]


def end(watched: Watched, worker: Worker) -> None:
    """SIGTERM to a worker, as a supervisor would send it; waits for its end."""
    watched.system.stage.workers._killed.add(worker.name)
    os.kill(worker.pid, signal.SIGTERM)
    wait_until(worker.has_ended.is_set, SECONDS, "it has ended")
