"""Makes the server packages importable under their short names, and only them.

The wheel exposes `umbel` alone: `tools` or `models` in site-packages would replace, or be replaced
by, somebody else's. So the server half travels in `umbel/server-packages`, and this module puts
that folder first on `sys.path`. Importing every package at once is what makes it hold: Celery
re-inserts the working directory at `sys.path[0]` when it loads modules (same family as celery
#3150), and a package that is already imported is found by its own `__path__`, not by `sys.path`.
"""

import importlib
import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

from umbel.errors import Misconfigured

SERVER_PACKAGES: Final = (
    "loop",
    "models",
    "migrations",
    "providers",
    "locks",
    "tools",
    "scheduler",
    "tasks",
)
"""Lower layers first, so that an import error names the package it is in."""

_LIBRARIES: Final = ("alembic", "openai", "psycopg", "pydantic_settings", "sqlalchemy")
"""Enough of the `server` extra to tell whether it was installed."""

_HERE: Final = Path(__file__).resolve().parent
_BUNDLED: Final = _HERE / "server-packages"


class ShadowedPackageError(Misconfigured):
    """A module of somebody else has the name of a server package and was imported first."""


def server_root() -> Path:
    """The absolute folder that holds the server packages: in the wheel, else in the checkout.

    Alembic's `script_location` must be given as `server_root() / "migrations"`: a relative one
    would be looked up in the working directory.

    Raises:
        Misconfigured: neither place holds them; the installation is incomplete.
    """
    root = _BUNDLED if _BUNDLED.is_dir() else _HERE.parent
    missing = [name for name in SERVER_PACKAGES if not (root / name / "__init__.py").is_file()]
    if missing:
        raise Misconfigured(
            f"The server packages {', '.join(missing)} are not in {str(root)!r}: this installation "
            'of Umbel is incomplete. Run `pip install --force-reinstall "umbel[server]"`.'
        )
    return root


def bind_server_packages() -> None:
    """Bind `loop`, `models`, … `tasks` to Umbel's own packages, whatever the working directory.

    Repeating it is cheap and checks again. Call it before anything imports a server package.

    Raises:
        ShadowedPackageError: one of the names is already taken by another module.
        Misconfigured: a library of the `server` extra is missing.
    """
    root = server_root()
    _refuse_client_installation()
    _put_first(str(root))
    for name in SERVER_PACKAGES:
        _check_origin(name, importlib.import_module(name), root / name)


def _put_first(entry: str) -> None:
    if sys.path[:1] != [entry]:
        sys.path[:] = [entry, *(other for other in sys.path if other != entry)]
        PathFinder.invalidate_caches()


def _refuse_client_installation() -> None:
    missing = [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise Misconfigured(
            f"The server half of Umbel needs {', '.join(missing)}, which this environment lacks: "
            'only the client is installed. Run `pip install "umbel[server]"`.'
        )


def _check_origin(name: str, module: ModuleType, expected: Path) -> None:
    actual = _origin(module)
    if actual == expected / "__init__.py":
        return
    raise ShadowedPackageError(
        f"The name {name!r} belongs to {str(actual or 'another module')!r}, which was imported "
        f"before Umbel's own package in {str(expected)!r}. Rename that module, or do not import it "
        "before `umbel.server`: tool modules need a top-level name of their own, "
        f"such as 'acme_{name}'."
    )


def _origin(module: ModuleType) -> Path | None:
    """The file a module came from; for a namespace package, its first folder."""
    if module.__file__ is not None:
        return Path(module.__file__).resolve()
    return next((Path(folder).resolve() for folder in getattr(module, "__path__", ())), None)
