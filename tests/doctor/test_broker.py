import re

import pytest
import redis

from tests.doctor.looking import look_at, look_at_all, settings_of
from tests.models.story import ME
from tests.services import Place
from tests.worker_processes import WorkerProcesses, wait_until
from umbel.cli.worker_commands import procfile, shown_command
from umbel.names import CONTROL_QUEUE, LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE
from umbel.settings import Settings

QUEUES = [LOOP_QUEUE, TOOLS_QUEUE, CONTROL_QUEUE, SUSPECT_QUEUE]


def test_a_message_comes_through_and_nothing_stays_behind(own_place: Place) -> None:
    with redis.Redis.from_url(own_place.redis_url) as client:
        before = client.keys("*")
        finding = look_at("broker", settings_of(own_place))
        assert finding.state == "ok", finding
        assert "came through in" in finding.found
        assert client.keys("*") == before


def test_a_user_who_may_not_write_gets_a_remedy(own_place: Place) -> None:
    with redis.Redis.from_url(own_place.redis_url) as client:
        client.acl_setuser(
            "ann", enabled=True, passwords=["+ann-secret"], keys=["other*"], categories=["+@all"]
        )
    url = f"{own_place.redis_url}?username=ann&password=ann-secret"
    place = Place(own_place.database_url, url, own_place.redis_prefix)
    finding = look_at("broker", settings_of(place))
    assert finding.state == "problem"
    assert "No permissions to access a key" in finding.found
    assert f"{{{place.redis_prefix}}}:*" in str(finding.remedy)


def test_queues_without_a_worker_name_the_command_that_starts_one(own_place: Place) -> None:
    settings = settings_of(own_place, step_concurrency=77)
    finding = look_at("queues", settings)
    assert finding.state == "problem"
    assert f"nobody consumes {', '.join(QUEUES)}" in finding.found
    assert "worker -P gevent -c 77 -Q umbel.loop -n step@%h" in str(finding.remedy)
    assert shown_command("control", settings) in str(finding.remedy)
    assert finding.facts["unconsumed"] == QUEUES


def test_the_shown_commands_are_those_of_the_procfile() -> None:
    lines = dict(line.split(": ", 1) for line in procfile().splitlines())
    for name in ("step", "tool", "control"):
        typed = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", lines[name]).removeprefix("python -m ")
        settings = Settings(step_concurrency=100, tool_concurrency=8)
        assert shown_command(name, settings) == typed


def test_a_redis_that_takes_no_writes_is_told_from_missing_rights(own_place: Place) -> None:
    with redis.Redis.from_url(own_place.redis_url) as client:
        client.config_set("min-replicas-to-write", 1)
        try:
            found = look_at_all(("redis", "broker", "queues", "beat"), settings_of(own_place))
        finally:
            client.config_set("min-replicas-to-write", 0)
    assert found["broker"].state == "problem"
    assert "min-replicas-to-write" in str(found["broker"].remedy)
    assert [found[part].state for part in ("queues", "beat")] == ["skipped", "skipped"]


def test_a_worker_that_lives_and_does_not_answer_is_no_missing_one(own_place: Place) -> None:
    from models.database import Database
    from models.workers import register

    database = Database(own_place.database_url, role="test", pool_size=1)
    register(database, ME, node="step@host", role="step", pool="gevent", pid=1)
    database.close()
    finding = look_at_all(("queues", "migrations"), settings_of(own_place))["queues"]
    assert f"a worker lives and does not answer over Redis: {LOOP_QUEUE}" in finding.found
    assert f"nobody consumes {', '.join(QUEUES[1:])}" in finding.found


@pytest.mark.slow
def test_a_beat_that_dies_is_missed_and_one_alone_is_a_warning(own_place: Place) -> None:
    settings = settings_of(own_place)
    with WorkerProcesses(own_place, {}) as workers:
        beat = workers.start("beat")
        workers.wait_ready()
        wait_until(lambda: look_at("beat", settings).state == "warning", 20, "one beat answers")
        alone = look_at("beat", settings)
        assert "nobody would replace it" in alone.found
        workers.kill(beat.pid)
        dead = look_at("beat", settings)
    assert dead.state == "problem"
    assert "none answers" in dead.found
    assert "Start `celery -A umbel.server beat --pidfile=`" in str(dead.remedy)
