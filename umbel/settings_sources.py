"""Where settings come from: the environment and `umbel.toml`. Collects values and faults."""

import os
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from umbel.settings_faults import did_you_mean

PREFIX: Final = "UMBEL_"
CONFIG_VARIABLE: Final = "UMBEL_CONFIG"
CONFIG_FILE: Final = "umbel.toml"
FILE_ONLY: Final = ("agents", "models")
"""Tables: they have no variable."""
_EXEMPT: Final = ("UMBEL_FAULTS", "UMBEL_FAULT_HOOK")
_EXEMPT_PREFIXES: Final = ("UMBEL_TEST_", "UMBEL_CASE_")
_OTHER_NAMES: Final = {"api_key": "OPENAI_API_KEY"}
"""A well-known variable that counts when ours is not set."""

Origin = str
Found = dict[str, tuple[Any, Origin]]
"""Field name to its raw value and the name of the place it stands in."""


def variable_of(field: str) -> str:
    """The environment variable of a field."""
    return PREFIX + field.upper()


def from_environment(
    environment: Mapping[str, str], fields: Collection[str]
) -> tuple[Found, list[str]]:
    """Values and faults of the `UMBEL_*` variables; an empty variable counts as not set."""
    variables = {variable_of(field): field for field in fields if field not in FILE_ONLY}
    found: Found = {}
    for field, variable in _OTHER_NAMES.items():
        if environment.get(variable):
            found[field] = (environment[variable], variable)
    for variable, field in variables.items():
        if environment.get(variable):
            found[field] = (environment[variable], variable)
    known = [*variables, CONFIG_VARIABLE]
    faults = [
        f"{variable} is not a setting of Umbel.{did_you_mean(variable, known)}"
        for variable in sorted(environment)
        if variable.startswith(PREFIX) and variable not in known and not _is_exempt(variable)
    ]
    return found, faults


def settings_path(environment: Mapping[str, str]) -> Path:
    """The file that settings are read from; it need not exist."""
    return Path(environment.get(CONFIG_VARIABLE) or CONFIG_FILE)


def from_file(environment: Mapping[str, str]) -> tuple[Found, list[str]]:
    """Values and faults of the file `UMBEL_CONFIG` names, else of `umbel.toml` in this folder."""
    named = environment.get(CONFIG_VARIABLE)
    path = settings_path(environment)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        missing = f"{CONFIG_VARIABLE} names {str(path)!r}, which does not exist."
        return {}, [missing] if named else []
    except (OSError, UnicodeDecodeError) as error:
        return {}, [f"The file {str(path)!r} cannot be read: {error}."]
    except tomllib.TOMLDecodeError as error:
        return {}, [f"The file {str(path)!r} is not TOML: {error}."]
    return {key: (value, f"{key} in {os.fspath(path)}") for key, value in content.items()}, []


def _is_exempt(variable: str) -> bool:
    return variable in _EXEMPT or variable.startswith(_EXEMPT_PREFIXES)
