"""PostgreSQL and Redis for tests: the embedded ones, or the machine's through UMBEL_TEST_*_URL.

Every test gets a database of its own, copied from a migrated template, and a key prefix of its own
in Redis. Both are removed afterwards, whatever the test did.
"""

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count

import psycopg.errors
import redis
from sqlalchemy import URL, Engine, NullPool, create_engine, make_url, text
from sqlalchemy.exc import ProgrammingError

from models.migration import migrate
from umbel.embedded import embedded_servers

OWN_REDIS_DATABASE = 9
"""Used on a machine's Redis when the given URL names no database."""


@dataclass(slots=True)
class Databases:
    """Makes databases on one server and drops them again."""

    server_url: str
    """Any database of the server; the role may create others."""
    prefix: str = field(default_factory=lambda: f"umbel_test_{os.getpid()}")
    _numbers: "count[int]" = field(default_factory=lambda: count(1))
    _template: str | None = None
    _living: list[str] = field(default_factory=list)

    def create(self) -> str:
        """The URL of a fresh, migrated database."""
        if self._template is None:
            self._template = self._create_template()
        name = f"{self.prefix}_{next(self._numbers)}"
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{self._template}"')
        self._living.append(name)
        return self._url(name)

    def create_empty(self) -> str:
        """The URL of a database without any table."""
        name = f"{self.prefix}_{next(self._numbers)}"
        self._execute(f'CREATE DATABASE "{name}"')
        self._living.append(name)
        return self._url(name)

    def drop(self, url: str) -> None:
        """Remove a database, ending whoever is still connected."""
        name = str(make_url(url).database)
        self._drop(name)
        if name in self._living:
            self._living.remove(name)

    def close(self) -> None:
        """Remove everything that was made."""
        names = [*self._living, *([self._template] if self._template else [])]
        for name in names:
            self._drop(name)

    def _create_template(self) -> str:
        name = f"{self.prefix}_template"
        self._execute(f'CREATE DATABASE "{name}"')
        try:
            migrate(self._url(name))
        except BaseException:
            self._drop(name)
            raise
        return name

    def _drop(self, name: str) -> None:
        try:
            self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        except ProgrammingError as error:
            if not isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
                raise
            # FORCE ends nobody where it finds an autovacuum, which is a superuser's. The plain
            # statement asks that one to leave, and waits.
            self._execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                f" WHERE datname = '{name}' AND usename = current_user"
            )
            self._execute(f'DROP DATABASE IF EXISTS "{name}"')

    def _execute(self, statement: str) -> None:
        engine = self._engine()
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()

    def _engine(self) -> Engine:
        return create_engine(
            _on_psycopg(self.server_url), poolclass=NullPool, isolation_level="AUTOCOMMIT"
        )

    def _url(self, name: str) -> str:
        return _on_psycopg(self.server_url).set(database=name).render_as_string(hide_password=False)


@dataclass(slots=True)
class RedisKeys:
    """Key prefixes on one Redis, each the property of one test."""

    url: str
    is_ours: bool
    """The whole server was started for the tests and may be emptied."""
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def new_prefix(self) -> str:
        """A prefix that nobody else uses."""
        return f"umbeltest-{os.getpid()}-{next(self._numbers)}"

    def wipe(self, prefix: str) -> None:
        """Remove what a test may have: everything on our own server, else only its own keys."""
        with redis.Redis.from_url(self.url) as client:
            if self.is_ours:
                client.flushall()
                return
            for pattern in (f"{prefix}:*", f"{{{prefix}}}:*"):  # ours, and the broker's
                if keys := list(client.scan_iter(match=pattern, count=1000)):
                    client.delete(*keys)


@dataclass(frozen=True, slots=True)
class Services:
    """The servers tests run on."""

    databases: Databases
    keys: RedisKeys

    @property
    def redis_url(self) -> str:
        """For redis-py."""
        return self.keys.url


@dataclass(frozen=True, slots=True)
class Place:
    """Where one test's system lives."""

    database_url: str
    redis_url: str
    redis_prefix: str


@contextmanager
def running_services() -> Generator[Services]:
    """The servers of the whole test run; embedded ones end with the block."""
    database_url = os.environ.get("UMBEL_TEST_DATABASE_URL", "")
    redis_url = os.environ.get("UMBEL_TEST_REDIS_URL", "")
    with ExitStack() as stack:
        embedded = None
        if not (database_url and redis_url):
            embedded = stack.enter_context(
                embedded_servers(database=not database_url, redis=not redis_url)
            )
        if redis_url or embedded is None:
            keys = RedisKeys(_with_own_database(redis_url), is_ours=False)
        else:
            keys = RedisKeys(embedded.redis_url, is_ours=True)
        databases = Databases(
            embedded.database_url if embedded and not database_url else database_url
        )
        stack.callback(databases.close)
        yield Services(databases, keys)


@contextmanager
def fresh_place(services: Services) -> Generator[Place]:
    """A database and a key prefix for the block."""
    database_url = services.databases.create()
    prefix = services.keys.new_prefix()
    try:
        yield Place(database_url, services.redis_url, prefix)
    finally:
        services.keys.wipe(prefix)
        services.databases.drop(database_url)


def _with_own_database(redis_url: str) -> str:
    url = make_url(redis_url)
    if url.drivername.startswith("unix") or url.database:
        return redis_url
    return f"{redis_url.rstrip('/')}/{OWN_REDIS_DATABASE}"


def _on_psycopg(url: str) -> URL:
    return make_url(url).set(drivername="postgresql+psycopg")
