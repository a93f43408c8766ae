import pytest
import redis

from tests.doctor.looking import look_at, look_at_all, settings_of
from tests.models.story import ME
from tests.services import Place
from tests.worker_processes import WorkerProcesses, wait_until
from umbel.cli.doctor.broker_checks import start_command
from umbel.cli.doctor.context import Context
from umbel.names import LOOP_QUEUE, TOOLS_QUEUE


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
    assert "NoPermission" in finding.found
    assert f"{{{place.redis_prefix}}}:*" in str(finding.remedy)


def test_queues_without_a_worker_name_the_command_that_starts_one(own_place: Place) -> None:
    settings = settings_of(own_place, step_concurrency=77)
    finding = look_at("queues", settings)
    assert finding.state == "problem"
    assert "nobody consumes umbel.loop, umbel.tools, umbel.control" in finding.found
    assert "worker -P gevent -c 77 -Q umbel.loop -n step@%h" in str(finding.remedy)
    assert "-P prefork" in start_command(TOOLS_QUEUE, Context(settings))
    assert finding.facts["unconsumed"] == ["umbel.loop", "umbel.tools", "umbel.control"]


def test_a_worker_that_lives_and_does_not_answer_is_no_missing_one(own_place: Place) -> None:
    from models.database import Database
    from models.workers import register

    database = Database(own_place.database_url, role="test", pool_size=1)
    register(database, ME, node="step@host", role="step", pool="gevent", pid=1)
    database.close()
    finding = look_at_all(("queues", "migrations"), settings_of(own_place))["queues"]
    assert f"a worker lives and does not answer over Redis: {LOOP_QUEUE}" in finding.found
    assert "nobody consumes umbel.tools, umbel.control" in finding.found


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
