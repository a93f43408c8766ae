"""The metrics page without workers: what is on it, parts that are away, and the document."""

import logging
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from models.database import Database
from models.overview import Overview
from models.tallies import add_tallies
from tasks.metrics import GAUGES, Shared, SystemCollector
from tasks.metrics_server import BrokerReader, MetricsServer, RecordReader
from tasks.presence import role_of
from tests.factories import a_run
from tests.services import Services
from tests.worker_processes import wait_until
from umbel.tallies import COUNTED, Series

DOCUMENT: Final = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
NOWHERE: Final = "postgresql+psycopg://nobody@127.0.0.1:1/none"
NO_REDIS: Final = "redis://127.0.0.1:1/0"
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def samples_of(page: str) -> Samples:
    """Values by sample name and labels."""
    found: Samples = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def page_of(collector: SystemCollector) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def a_collector(database: Database, services: Services) -> SystemCollector:
    return SystemCollector(RecordReader(database, 15), BrokerReader(services.redis_url, "u"))


@pytest.fixture
def address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_the_page_shows_the_record_the_broker_and_the_counts(
    database: Database, services: Services
) -> None:
    a_run(database)
    wait = "umbel_queue_wait_seconds"
    add_tallies(
        database,
        {
            Series("umbel_cost_usd_total", ("m",)): 0.5,
            Series(wait, ("umbel.loop",), "0.1"): 3.0,
            Series(wait, ("umbel.loop",), "+Inf"): 1.0,
            Series(wait, ("umbel.loop",), "sum"): 2000.2,
        },
    )
    found = samples_of(page_of(a_collector(database, services)))
    assert found["umbel_up"] == {(("part", "postgresql"),): 1, (("part", "redis"),): 1}
    assert found["umbel_runs"][("reason", ""), ("status", "running")] == 1
    assert found["umbel_ready"][(("queue", "umbel.loop"),)] == 1
    assert found["umbel_broker_messages"][(("queue", "umbel.loop"),)] == 0
    assert found["umbel_cost_usd_total"] == {(("model", "m"),): 0.5}
    buckets = found[f"{wait}_bucket"]
    assert buckets[("le", "0.05"), ("queue", "umbel.loop")] == 0
    assert buckets[("le", "0.1"), ("queue", "umbel.loop")] == 3
    assert buckets[("le", "1800.0"), ("queue", "umbel.loop")] == 3
    assert buckets[("le", "+Inf"), ("queue", "umbel.loop")] == 4
    assert found[f"{wait}_count"] == {(("queue", "umbel.loop"),): 4}
    assert found[f"{wait}_sum"] == {(("queue", "umbel.loop"),): 2000.2}


def test_what_never_happened_is_zero_where_a_rate_needs_a_beginning(
    database: Database, services: Services
) -> None:
    found = samples_of(page_of(a_collector(database, services)))
    assert found["umbel_fence_rejections_total"] == {(): 0}
    assert found["umbel_unknown_receipts_open"] == {(): 0}
    assert found["umbel_workers"][(("role", "step"),)] == 0
    assert found["umbel_step_duration_seconds_count"] == {(): 0}


def test_the_page_answers_while_postgresql_is_away(services: Services) -> None:
    away = Database(NOWHERE, role="t", pool_size=1)
    found = samples_of(page_of(a_collector(away, services)))
    assert found.pop("umbel_up") == {(("part", "postgresql"),): 0, (("part", "redis"),): 1}
    assert set(found) == {"umbel_broker_messages"}, "nothing is made up"


def test_the_page_answers_while_redis_is_away(database: Database) -> None:
    collector = SystemCollector(RecordReader(database, 15), BrokerReader(NO_REDIS, "u"))
    found = samples_of(page_of(collector))
    assert found["umbel_up"] == {(("part", "postgresql"),): 1, (("part", "redis"),): 0}
    assert "umbel_broker_messages" not in found
    assert "umbel_runs" in found


def test_a_part_that_comes_back_is_seen_again(database: Database) -> None:
    looks: Iterator[bool] = iter([False, True])

    def look() -> int | None:
        return 7 if next(looks) else None

    shared = Shared(look, kept_seconds=0)
    assert shared.get() is None
    assert shared.get() == 7


def test_many_scrapes_at_once_are_one_look() -> None:
    began, release, looks = threading.Event(), threading.Event(), [0]

    def look() -> int:
        looks[0] += 1
        began.set()
        release.wait(10)
        return looks[0]

    shared = Shared(look, kept_seconds=60)
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(shared.get) for _ in range(8)]
        assert began.wait(10)
        release.set()
        assert {answer.result(10) for answer in answers} == {1}
    assert shared.get() == 1


def test_a_look_that_hangs_holds_no_scrape_up_and_is_not_repeated() -> None:
    release, looks = threading.Event(), [0]

    def hang() -> int:
        looks[0] += 1
        release.wait(30)
        return looks[0]

    shared = Shared(hang, kept_seconds=60, patience_seconds=0.05)
    assert [shared.get() for _ in range(3)] == [None, None, None]
    assert looks == [1]
    release.set()
    wait_until(lambda: shared.get() == 1, 10, "the answer comes after all")


def test_a_look_that_breaks_is_no_answer_and_the_next_one_may_succeed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    answers: Iterator[int] = iter([0, 1])
    shared = Shared(lambda: 1 // next(answers) or None, kept_seconds=0)
    assert shared.get() is None
    assert shared.get() == 1


def test_an_address_in_use_is_said_once_and_served_when_it_is_free(
    database: Database, services: Services, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    collector = a_collector(database, services)
    first = MetricsServer(address, collector)
    first.start()
    wait_until(lambda: first._server is not None, 10, "the first serves")
    second = MetricsServer(address, collector, retry_seconds=0.02)
    with caplog.at_level(logging.WARNING):
        second.start()
        wait_until(lambda: len(caplog.records) == 1, 10, "it is said")
        assert "UMBEL_METRICS_ADDRESS" in caplog.text
        assert first._server is not None
        first._server.shutdown()
        first._server.server_close()
        wait_until(lambda: second._server is not None, 10, "the second takes over")
    assert len(caplog.records) == 1
    with urlopen(f"http://{address}/metrics", timeout=10) as answer:
        assert "umbel_up" in answer.read().decode()
        assert answer.headers["Content-Type"].startswith("text/plain")
    assert second._server is not None
    second._server.shutdown()
    second._server.server_close()


@pytest.mark.parametrize(
    ("name", "role"),
    [("control", "control"), ("control-2", "control"), ("step12", "step"), ("42", "42")],
)
def test_the_role_of_a_worker_is_its_name_without_a_number(name: str, role: str) -> None:
    assert role_of(name) == role


def documented() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and labels of every metric in the tables of the document."""
    rows = re.findall(r"^\| `(umbel_\w+)` \| (\w+) \| (.*?) \|", DOCUMENT, re.MULTILINE)
    assert len(rows) == len({name for name, _, _ in rows})
    return {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def test_the_document_lists_exactly_the_metrics_there_are() -> None:
    kinds = {m.name: "histogram" if m.buckets else "counter" for m in COUNTED.values()}
    there_are = {m.name: (kinds[m.name], m.labels) for m in COUNTED.values()}
    there_are |= {gauge.name: ("gauge", gauge.labels) for gauge in GAUGES}
    assert documented() == there_are


def test_the_page_shows_no_metric_that_is_not_in_the_document() -> None:
    every = {
        Series(m.name, ("x",) * len(m.labels), "sum" if m.buckets else "") for m in COUNTED.values()
    }
    overview = Overview({}, {}, 0, {}, dict.fromkeys(every, 1.0))
    page = page_of(SystemCollector(lambda: overview, lambda: {"umbel.loop": 1}))
    shown = re.findall(r"^# TYPE (umbel_\w+) (\w+)", page, re.MULTILINE)
    assert dict(shown) == {name: kind for name, (kind, _) in documented().items()}


def examples() -> list[Any]:
    blocks = re.findall(r"^```yaml\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
    return [yaml.safe_load(block) for block in blocks]


def test_the_scrape_example_asks_where_a_control_worker_serves() -> None:
    [job] = examples()[0]["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:9464"]}]


def alert_rules() -> list[dict[str, Any]]:
    [group] = examples()[1]["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: rule["alert"])
def test_an_alert_speaks_of_metrics_and_labels_that_exist(rule: dict[str, Any]) -> None:
    metrics = documented()
    named = re.findall(r"umbel_\w+", rule["expr"])
    assert named
    labels = {label for name in named for label in metrics[name][1]}
    selected = {
        label
        for selector in re.findall(r"\{(.*?)\}", rule["expr"])
        for label in re.findall(r"(\w+)\s*[=!]", selector)
    }
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert selected | shown <= labels
