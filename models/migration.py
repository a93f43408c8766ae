"""Brings a database to the tables of this version, and says how far it is from them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import CheckConstraint, Connection, NullPool, create_engine, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from models.refusals import connection_error, one_line
from models.tables import metadata
from umbel.errors import Misconfigured
from umbel.server_path import server_root

OLDEST_POSTGRES: Final = 15
_LOCK: Final = 0x756D62656C  # "umbel"; any number that nobody else locks
_LOCK_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How a database stands to this version of Umbel."""

    current: str | None
    """Its newest revision; None: it has no tables of Umbel."""
    head: str
    """The newest revision this version knows."""
    differences: tuple[str, ...] = ()
    """What the tables have too much, too little or different; empty while not current."""

    @property
    def is_current(self) -> bool:
        """All revisions are applied."""
        return self.current == self.head


def migrate(url: str) -> list[str]:
    """Apply every missing revision as one transaction; returns them, oldest first.

    Two starters do not race: the second waits, at most a minute, and finds nothing to do.

    Raises:
        Unavailable: PostgreSQL does not answer, or another migration takes too long.
        Misconfigured: the database refuses the connection, is too old, newer than this version, or
            gives no right to create tables.
    """
    with _transaction(url) as connection:
        _check_server(connection)
        connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
        before = _known_revision(connection)
        command.upgrade(_config(connection), "head")
        missing = _scripts().iterate_revisions("head", before or "base")
        return [script.revision for script in missing][::-1]


def check(url: str, *, compare: bool = True) -> CheckResult:
    """Compare a database with this version; changes nothing.

    Args:
        url: the database.
        compare: also look for differences in the tables, which takes about half a second.

    Raises:
        Unavailable: PostgreSQL does not answer.
        Misconfigured: the server refuses the connection or is too old, or the database is newer
            than this version.
    """
    with _transaction(url) as connection:
        _check_server(connection)
        result = CheckResult(_known_revision(connection), _head())
        if not (compare and result.is_current):
            return result
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        differences = [*map(_words, compare_metadata(context, metadata))]
        differences += _missing_checks(connection)
        return CheckResult(result.current, result.head, tuple(differences))


def revert(url: str) -> None:
    """Drop every table of Umbel, with everything in it: for tests.

    Raises:
        Unavailable: PostgreSQL does not answer.
    """
    with _transaction(url) as connection:
        command.downgrade(_config(connection), "base")


@contextmanager
def _transaction(url: str) -> Iterator[Connection]:
    engine = create_engine(
        url,
        poolclass=NullPool,
        connect_args={"connect_timeout": 5, "application_name": "umbel-migrate"},
    )
    try:
        with engine.begin() as connection:
            yield connection
    except OperationalError as error:
        raise connection_error(error.orig) from error
    except ProgrammingError as error:
        raise Misconfigured(
            f"PostgreSQL refused a migration: {one_line(str(error.orig))}. Give the role "
            "of the database URL the right to create tables, for instance as owner of the database."
        ) from error


def _check_server(connection: Connection) -> None:
    version = connection.execute(text("SHOW server_version_num")).scalar_one()
    if int(version) < OLDEST_POSTGRES * 10_000:
        raise Misconfigured(
            f"PostgreSQL {int(version) // 10_000} is too old; "
            f"Umbel needs {OLDEST_POSTGRES} or newer."
        )


def _known_revision(connection: Connection) -> str | None:
    """The revision the database is at; refuses one that this version has never heard of."""
    current = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in _scripts().walk_revisions()}
    if current is not None and current not in known:
        raise Misconfigured(
            f"The database is at revision {current!r}, which this version of Umbel does not know: "
            "a newer version migrated it. Upgrade Umbel."
        )
    return current


def _head() -> str:
    head = _scripts().get_current_head()
    if head is None:
        raise Misconfigured(
            "This installation has no migrations; run `pip install --force-reinstall umbel`."
        )
    return head


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config(None))


def _config(connection: Connection | None) -> Config:
    config = Config()
    # Absolute, because a relative place would be looked up in the working directory.
    folder = str(server_root() / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _missing_checks(connection: Connection) -> list[str]:
    """CHECKs that the database lacks: Alembic's comparison leaves them out."""
    query = text("SELECT conname FROM pg_constraint WHERE contype = 'c'")
    present = set(connection.execute(query).scalars())
    wanted = {
        str(constraint.name): table.name
        for table in metadata.sorted_tables
        for constraint in table.constraints
        if isinstance(constraint, CheckConstraint)
    }
    return [f"add check {table} {name}" for name, table in wanted.items() if name not in present]


def _words(difference: object) -> str:
    """One difference as text; modifications of a column come as a list of one."""
    if isinstance(difference, list):
        return "; ".join(map(_words, difference))
    if not isinstance(difference, tuple):
        return str(difference)
    kind, *parts = difference
    shown = [str(getattr(part, "name", part)) for part in parts if part is not None and part != {}]
    return " ".join([str(kind).replace("_", " "), *shown])
