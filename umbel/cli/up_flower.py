"""Who may look at the Flower of `umbel up`: the settings say, or a password made once."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from umbel.cli.kept_file import read_kept, write_kept
from umbel.errors import Misconfigured
from umbel.settings import Settings

_FILE: Final = "flower.auth"
_USER: Final = "umbel"
_PASSWORD_BYTES: Final = 18


@dataclass(frozen=True, slots=True)
class FlowerAuth:
    """A user and a password."""

    user: str
    password: SecretStr
    file: Path | None
    """Where it is kept; None: it is the one of the settings."""

    @property
    def together(self) -> SecretStr:
        """`user:password`."""
        return SecretStr(f"{self.user}:{self.password.get_secret_value()}")


def flower_auth(settings: Settings, directory: Path) -> FlowerAuth:
    """The one of the settings, else the one kept in the directory, made there the first time.

    Raises:
        Misconfigured: the kept file is damaged.
    """
    if settings.flower_auth is not None:
        return _parted(settings.flower_auth.get_secret_value(), None)
    path = directory / _FILE
    text = read_kept(path)
    if text is None:
        text = f"{_USER}:{secrets.token_urlsafe(_PASSWORD_BYTES)}"
        write_kept(path, text)
    return _parted(text, path)


def _parted(text: str, file: Path | None) -> FlowerAuth:
    user, _, password = text.partition(":")
    if not user or not password:
        raise Misconfigured(
            f"The file {str(file)!r} holds no user:password; remove it, and a new one is made."
        )
    return FlowerAuth(user, SecretStr(password), file)
