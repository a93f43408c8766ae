"""`umbel up` on servers that the settings name: it starts none itself and leaves them running."""

import signal
from pathlib import Path

import pytest
import redis

from tests.cli.test_up import SECONDS, broken_rules, up
from tests.embedded.observing import processes_below
from tests.services import Place
from tests.worker_processes import PATIENT_CLOCKS, wait_until
from umbel.cli.running_system import settings_in_use
from umbel.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_system_on_given_servers_starts_none_carries_a_run_and_leaves_them(
    place: Place, folder: Path
) -> None:
    given = {
        **PATIENT_CLOCKS,
        "UMBEL_DATABASE_URL": place.database_url,
        "UMBEL_REDIS_URL": place.redis_url,
        "UMBEL_REDIS_PREFIX": place.redis_prefix,
    }
    data = folder / "data"
    with up(data, model="demo", environment=given) as running:
        ready = running.wait_for("system.ready")
        assert {fact["process"] for fact in running.of_type("process.started")} == {
            *("step", "tool", "control", "beat.1", "beat.2", "flower")
        }
        assert ready["processes"] == 6
        assert not [path for path in data.rglob("*") if path.is_socket()]
        settings = settings_in_use(data)
        assert (settings.database_url, settings.redis_url) == (place.database_url, place.redis_url)
        with Service(settings) as service:
            run_id = service.enqueue("Where does it say so?", workspace=str(folder / "work"))
            wait_until(lambda: service.get(run_id).status == "completed", SECONDS, "it completes")
        assert broken_rules(data) == []
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 128 + signal.SIGTERM
    assert processes_below(folder) == []
    with redis.Redis.from_url(place.redis_url) as client:
        assert client.ping()
