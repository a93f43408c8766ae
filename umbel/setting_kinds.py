"""The kinds of values that settings have: how they are written and what is allowed."""

import getpass
import os
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from umbel.errors import InvalidInput
from umbel.settings_faults import Allowed
from umbel.web_targets.allowing import AllowList

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
LogFormat = Literal["auto", "json", "text"]
OFF: Final = "off"
"""How an address that is None is written."""


def level_of(value: object) -> object:
    """A log level in whatever case; anything else stays as it is, to be shown as it was given."""
    if isinstance(value, str) and value.upper() in get_args(LogLevel):
        return value.upper()
    return value


def split(value: object) -> object:
    """A text with commas as its parts; anything else stays as it is."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _address(value: object) -> object:
    """`host:port` with a port of 1 to 65,535; None for `off`."""
    if value == OFF or value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("not a text")  # noqa: TRY004 - pydantic words only ValueError
    host, separator, port = value.rpartition(":")
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError("not a host and a port")
    return value


def _check_targets(value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        AllowList.of(value)
    except InvalidInput as error:
        raise ValueError(str(error)) from error  # pydantic words only ValueError
    return value


def operating_system_user() -> str:
    """Who runs this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run as a number without a name
        return f"uid-{os.getuid()}"


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), Allowed("a number of seconds above 0")]
Count = Annotated[int, Field(ge=1), Allowed("a whole number, 1 or more")]
Name = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$"),
    Allowed("up to 64 letters, digits, '_', '.', '@' and '-', a letter or digit first"),
]
OptionalAddress = Annotated[
    str | None,
    BeforeValidator(_address),
    Allowed("host:port such as 127.0.0.1:9464, or off"),
]
Level = Annotated[LogLevel, BeforeValidator(level_of)]
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(split),
    Allowed("module names separated by commas; in the file a list"),
]
Hooks = Annotated[
    tuple[str, ...],
    BeforeValidator(split),
    Allowed("`module:function` names separated by commas; in the file a list"),
]
WebTargets = Annotated[
    tuple[str, ...],
    BeforeValidator(split),
    AfterValidator(_check_targets),
    Allowed(
        "hosts and networks separated by commas, such as wiki.example:8080 or 10.0.0.0/8; in the "
        "file a list"
    ),
]
