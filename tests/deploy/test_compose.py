"""The rules that docker-compose.yml keeps: closed, bounded, and the same processes as elsewhere."""

import re
from typing import Any

import pytest

from tests.deploy.composition import (
    GIVEN,
    PROCESSES,
    ROOT,
    SERVERS,
    Missing,
    compose_services,
    text_without_comments,
    written_variables,
)
from umbel.cli.worker_commands import procfile
from umbel.settings import load_settings

ALL = (*SERVERS, "migrate", *PROCESSES)
each_service = pytest.mark.parametrize("name", ALL)


def test_there_are_the_servers_the_migration_and_the_processes_of_the_procfile() -> None:
    listed = dict(line.split(": ", 1) for line in procfile().splitlines())
    assert set(compose_services()) == {*SERVERS, "migrate", *listed}
    assert set(PROCESSES) == set(listed)


def test_every_process_is_started_as_the_procfile_starts_it() -> None:
    listed = dict(line.split(": ", 1) for line in procfile().splitlines())
    as_written = text_without_comments()
    for name, command in listed.items():
        assert f"    command: {command}\n" in as_written, name


def test_two_beats_run() -> None:
    assert compose_services()["beat"]["deploy"]["replicas"] == 2


@each_service
def test_nothing_is_published_beyond_this_machine(name: str) -> None:
    ports = compose_services()[name].get("ports", [])
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)
    assert ports == {
        "control": ["127.0.0.1:9464:9464"],
        "flower": ["127.0.0.1:5555:5555"],
    }.get(name, [])
    assert compose_services()[name].get("network_mode") is None


def test_the_servers_are_on_a_network_without_a_way_out() -> None:
    compose = compose_services()
    assert {name for name in ALL if compose[name]["networks"] == ["data"]} == {
        *SERVERS,
        "migrate",
        "beat",
    }
    assert "\nnetworks:\n  data:\n    internal: true\n" in text_without_comments()


@pytest.mark.parametrize("name", [name for name in GIVEN if name != "UMBEL_API_KEY"])
def test_without_a_password_nothing_starts(name: str) -> None:
    with pytest.raises(Missing, match=name):
        compose_services({**GIVEN, name: ""})


def test_every_secret_comes_from_the_environment_and_is_named_in_the_example() -> None:
    example = (ROOT / ".env.example").read_text()
    named = dict(re.findall(r"^(?:# )?(UMBEL_\w+)=(.*)$", example, re.MULTILINE))
    assert set(written_variables()) - set(named) == {"UMBEL_VERSION"}
    assert set(named) <= set(written_variables())
    assert {name: value for name, value in named.items() if name in GIVEN and value} == {}
    for line in text_without_comments().splitlines():
        for value in re.findall(r"(?:PASSWORD|AUTH|KEY)\w*: (.*)", line):
            assert value.startswith("${"), line


def test_only_who_carries_steps_gets_the_key_of_the_model() -> None:
    compose = compose_services()
    assert [name for name in ALL if "keysecret" in str(compose[name])] == ["step", "control"]


def test_only_flower_gets_its_password_and_it_gets_no_rights_of_a_worker() -> None:
    compose = compose_services()
    assert [name for name in ALL if "authsecret" in str(compose[name])] == ["flower"]
    assert "vksecret" not in str(compose["flower"])


def test_no_secret_is_part_of_a_command() -> None:
    for name, service in compose_services().items():
        assert not re.search("secret", str(service.get("command", ""))), name


@each_service
def test_every_container_is_closed(name: str) -> None:
    service = compose_services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert not service.get("privileged")
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] not in ("", "0", "root", "0:0")
    assert service["tmpfs"]


@each_service
def test_every_container_is_bounded(name: str) -> None:
    service = compose_services()[name]
    limits = service["deploy"]["resources"]["limits"]
    assert re.fullmatch(r"\d+[mg]", limits["memory"])
    assert limits["pids"] <= 512
    assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}


def test_a_tool_worker_may_have_as_much_memory_as_its_children_may_take() -> None:
    from tasks.app import celery_configuration

    child_kib = celery_configuration(load_settings({}))["worker_max_memory_per_child"]
    limit = compose_services()["tool"]["deploy"]["resources"]["limits"]["memory"]
    assert limit.endswith("g")
    assert 8 * child_kib * 1024 < int(limit[:-1]) * 2**30


@pytest.mark.parametrize("name", PROCESSES)
def test_every_process_has_time_to_drain_and_comes_back(name: str) -> None:
    service = compose_services()[name]
    assert service["stop_signal"] == "SIGTERM"
    assert service["stop_grace_period"] == "25s"
    assert service["restart"] == "unless-stopped"
    assert service["init"] is True


@pytest.mark.parametrize("name", [name for name in PROCESSES if name != "flower"])
def test_every_worker_waits_for_the_servers_and_the_tables(name: str) -> None:
    assert compose_services()[name]["depends_on"] == {
        "postgres": {"condition": "service_healthy"},
        "valkey": {"condition": "service_healthy"},
        "migrate": {"condition": "service_completed_successfully"},
    }


def test_the_servers_come_back_and_the_migration_runs_once() -> None:
    compose = compose_services()
    assert {compose[name]["restart"] for name in SERVERS} == {"unless-stopped"}
    assert compose["migrate"]["restart"] == "no"
    assert compose["migrate"]["command"] == "umbel db migrate"
    assert compose["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_everything_that_stays_has_a_health_check_of_its_own() -> None:
    compose = compose_services()
    for name in (*SERVERS, *PROCESSES):
        check = compose[name]["healthcheck"]
        assert check["test"][0] in ("CMD", "CMD-SHELL"), name
        assert {"interval", "timeout", "retries", "start_period"} <= set(check), name
    for name in ("step", "tool", "control", "beat"):
        assert compose[name]["healthcheck"]["test"][1:] == ["python", "-m", "umbel.cli.alive", name]


@pytest.mark.parametrize("name", ["migrate", *PROCESSES])
def test_every_process_accepts_its_settings_and_flower_has_no_database(
    name: str,
) -> None:
    environment: dict[str, Any] = compose_services()[name]["environment"]
    settings = load_settings({key: str(value) for key, value in environment.items()})
    assert settings.redis_url
    if name == "flower":
        assert settings.database_url is None
        return
    assert settings.database_url == "postgresql+psycopg://umbel:pgsecret@postgres:5432/umbel"
    assert settings.log_format == "json"
    assert (settings.metrics_address is None) == (name != "control")


def test_what_is_kept_is_in_named_volumes_and_the_rest_is_read_only() -> None:
    for name, service in compose_services().items():
        for volume in service.get("volumes", []):
            source, _, rest = volume.partition(":")
            assert source in ("postgres", "valkey", "workspaces") or rest.endswith(":ro"), name
            assert "docker.sock" not in volume
            if source.startswith("./"):
                assert (ROOT / source).exists()
