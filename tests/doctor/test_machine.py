"""Disks, clocks and Flower: what a machine may have wrong."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.broker import publisher
from tests.doctor.looking import look_at, look_at_all, settings_of
from tests.services import Place
from tests.worker_processes import wait_until
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding
from umbel.settings import Settings, load_settings


def a_disk(*, free: int, blocks: int = 1_000_000, inodes_free: int = 1000) -> os.statvfs_result:
    """4 GB in blocks of 4 KiB, unless told otherwise."""
    return os.statvfs_result(
        (4096, 4096, blocks, free, free, 2000, inodes_free, inodes_free, 0, 255)
    )


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "umbel-test", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("no right to mount here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_a_problem_with_its_path(tiny_disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"), (tiny_disk / "filler").open("wb") as file:
        file.write(bytes(2 * 1024 * 1024))
    finding = look_at("disk", Context(Settings(), data=tiny_disk))
    assert finding.state == "problem"
    assert f"data directory {tiny_disk} is full" in finding.found
    assert f"du -xh` of {tiny_disk}" in str(finding.remedy)


@pytest.mark.parametrize(
    ("disk", "state", "found"),
    [
        (a_disk(free=500_000), "ok", "2 GiB free"),
        (a_disk(free=40_000), "warning", "96% full"),
        (a_disk(free=2_000), "problem", "is full"),
        (a_disk(free=500_000, inodes_free=0), "problem", "all inodes are used"),
    ],
)
def test_how_full_a_disk_may_be(
    tmp_path: Path, disk: os.statvfs_result, state: str, found: str
) -> None:
    context = Context(Settings(), data=tmp_path, statvfs=lambda _: disk)
    finding = look_at("disk", context)
    assert finding.state == state
    assert found in finding.found


def test_the_data_of_a_local_postgresql_is_looked_at_where_the_role_may_know_it(
    place: Place, tmp_path: Path
) -> None:
    asked: list[str] = []

    def statvfs(path: str) -> os.statvfs_result:
        asked.append(path)
        return a_disk(free=500_000)

    admin = make_url(place.database_url).set(username="postgres")
    if not str(admin.query.get("host", "")).startswith("/"):
        pytest.skip("only the tests' own server has a superuser without a password")
    url = admin.render_as_string(hide_password=False)
    settings = settings_of(replace(place, database_url=url))
    look_at_all(("disk", "database"), Context(settings, data=tmp_path, statvfs=statvfs))
    assert [path for path in asked if path.endswith("/postgres")]


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("postgresql://ann@/umbel?host=/run/postgresql", True),
        ("postgresql://ann@localhost/umbel", True),
        ("postgresql://ann@db.example.org/umbel", False),
    ],
)
def test_a_database_on_another_machine_has_its_disk_there(url: str, is_here: bool) -> None:
    settings = load_settings({"UMBEL_CONFIG": ""}, database_url=url)
    assert Context(settings).is_database_here == is_here


@pytest.mark.parametrize(
    ("skew", "state", "found"),
    [
        (0.0, "ok", "within 2 s"),
        (10.0, "warning", "this machine 10.0 s ahead of the database"),
        (-90.0, "problem", "this machine 90.0 s behind the database"),
    ],
)
def test_a_clock_that_is_off_is_said_with_direction(
    place: Place, skew: float, state: str, found: str
) -> None:
    context = Context(settings_of(place), clock=lambda: time.time() + skew)
    finding = look_at("clock", context)
    assert finding.state == state
    assert found in finding.found
    if state != "ok":
        assert "timedatectl set-ntp true" in str(finding.remedy)


@contextmanager
def web_server(status: int, body: bytes, headers: dict[str, str]) -> Iterator[str]:
    """The address of a server that answers every GET alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def flower_at(address: str) -> Finding:
    return look_at("flower", load_settings({"UMBEL_CONFIG": ""}, flower_address=address))


@pytest.mark.parametrize("password", ["", "ann:secret-of-flower"])
def test_a_real_flower_is_open_exactly_when_it_has_no_password(place: Place, password: str) -> None:
    app = publisher(place)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as unused:
        port = unused.server_address[1]
    command = [sys.executable, "-m", "celery", "-b", str(app.conf.broker_url), "flower"]
    command += ["--address=127.0.0.1", f"--port={port}", "--enable-events=false"]
    command += [f"--basic-auth={password}"] if password else []
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"127.0.0.1:{port}"
        wait_until(lambda: "not there" not in flower_at(address).found, 60, "Flower answers")
        finding = flower_at(address)
    finally:
        process.terminate()
        process.wait(20)
    if password:
        assert finding.state == "ok"
        assert "asks for a password" in finding.found
    else:
        assert finding.state == "problem"
        assert "Flower is open" in finding.found
        assert "set UMBEL_FLOWER_AUTH=user:password" in str(finding.remedy)


def test_flower_on_every_interface_is_a_warning_even_behind_a_password() -> None:
    with web_server(401, b"", {"WWW-Authenticate": "Basic"}) as address:
        assert flower_at(address).state == "ok"
        port = address.rpartition(":")[2]
        finding = flower_at(f"0.0.0.0:{port}")
    assert finding.state == "warning"
    assert "other machines reach it" in finding.found
    assert "127.0.0.1" in str(finding.remedy)


def test_something_else_on_the_port_is_not_taken_for_flower() -> None:
    with web_server(200, b"<h1>It works</h1>", {}) as address:
        assert "is no Flower" in flower_at(address).found


def test_flower_that_is_switched_off_is_no_fault() -> None:
    assert flower_at("off").state == "ok"
