"""What Celery is told, and what nobody may write: a message is a hint, the truth is elsewhere."""

import re
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.app.defaults import NAMESPACES, flatten

from tasks.app import celery_configuration, register_tasks
from umbel import names
from umbel.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = [
    path
    for folder in ("umbel", "loop", "models", "providers", "locks", "tools", "scheduler", "tasks")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return celery_configuration(load_settings({}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("task_acks_late", False),
        ("task_reject_on_worker_lost", False),
        ("task_ignore_result", True),
        ("result_backend", "disabled://"),
        ("task_store_errors_even_if_ignored", False),
        ("task_serializer", "json"),
        ("result_serializer", "json"),
        ("event_serializer", "json"),
        ("accept_content", ["json"]),
        ("task_create_missing_queues", False),
        ("task_publish_retry", False),
        ("worker_prefetch_multiplier", 1),
        ("worker_cancel_long_running_tasks_on_connection_loss", False),
        ("broker_connection_max_retries", None),
        ("broker_connection_retry_on_startup", True),
    ],
)
def test_celery_is_told(told: dict[str, Any], name: str, value: object) -> None:
    assert told[name] == value


def test_there_are_no_time_limits(told: dict[str, Any]) -> None:
    assert not [name for name in told if "time_limit" in name and "eta" not in name]


def test_every_task_has_a_queue_that_exists(told: dict[str, Any]) -> None:
    app = Celery("t", broker="memory://", set_as_current=False)
    app.conf.update(told)
    queues = {queue.name for queue in told["task_queues"]}
    expected = {names.STEP: names.LOOP_QUEUE, names.CALL: names.TOOLS_QUEUE}
    for task, queue in expected.items():
        routed: Any = app.amqp.router.route({}, task)
        assert routed["queue"].name == queue
    assert queues == {getattr(names, name) for name in dir(names) if name.endswith("_QUEUE")}
    assert told["task_default_queue"] in queues


def test_settings_that_celery_does_not_know_are_not_set(told: dict[str, Any]) -> None:
    options: Any = flatten(NAMESPACES)
    known = {name for name, _ in options}
    assert set(told) <= known


def test_keys_of_two_systems_on_one_redis_differ() -> None:
    prefixes = {
        celery_configuration(load_settings({}, redis_prefix=prefix))["broker_transport_options"][
            "global_keyprefix"
        ]
        for prefix in ("one", "two")
    }
    assert len(prefixes) == 2


def test_the_tasks_of_the_application_are_the_published_names() -> None:
    app = Celery("t", broker="memory://", set_as_current=False)
    register_tasks(app)
    own = {name for name in app.tasks if not name.startswith("celery.")}
    queues = {getattr(names, name) for name in dir(names) if name.endswith("_QUEUE")}
    published = {
        value
        for value in vars(names).values()
        if isinstance(value, str) and value.startswith("umbel.") and value not in queues
    }
    assert own == published - {"umbel.names"}


def test_other_applications_of_the_process_do_not_get_them() -> None:
    register_tasks(Celery("t", broker="memory://", set_as_current=False))
    other = Celery("other", broker="memory://", set_as_current=False)
    assert not [name for name in other.tasks if name.startswith("umbel.")]


@pytest.mark.parametrize(
    "banned",
    [
        r"\.delay\(",
        r"\.apply_async\(",
        r"\bcountdown\s*=",
        r"\beta\s*=",
        r"\bchord\(",
        r"\bgroup\(",
        r"\bchain\(",
        r"always_eager",
        r"AsyncResult",
        r"\bsoft_time_limit\b",
        r"\btime_limit\b",
        r"acks_late\"?\s*[:=]\s*True",
        r"\bpickle\b",
    ],
)
def test_nobody_writes(banned: str) -> None:
    pattern = re.compile(banned)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in PRODUCT
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if pattern.search(line.partition("#")[0]) and "match.group(" not in line
    ]
    assert found == []


def test_task_bodies_are_one_line_that_hands_over() -> None:
    text = (ROOT / "tasks/app.py").read_text()
    for name in ("STEP", "CALL"):
        body = text.split(f"@app.task(name={name}, shared=False)")[1].split("\n\n")[0]
        assert len(body.strip().splitlines()) == 2
