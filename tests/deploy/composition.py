"""docker-compose.yml as docker compose reads it: variables filled in, services by name."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
SERVERS: Final = ("postgres", "valkey")
PROCESSES: Final = ("step", "tool", "control", "beat", "flower")

GIVEN: Final = {
    "UMBEL_POSTGRES_PASSWORD": "pgsecret",
    "UMBEL_VALKEY_PASSWORD": "vksecret",
    "UMBEL_VALKEY_FLOWER_PASSWORD": "flsecret",
    "UMBEL_FLOWER_AUTH": "me:authsecret",
    "UMBEL_API_KEY": "keysecret",
}
"""What a person must write into .env, and the key."""

_VARIABLE: Final = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:-|:\?)([^}]*))?\})")


class Missing(Exception):
    """A variable that has to be set is not."""


def compose_services(variables: Mapping[str, str] = GIVEN) -> dict[str, dict[str, Any]]:
    """Every service with these variables in place.

    Raises:
        Missing: one without a default is not among them.
    """
    loaded = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    filled: dict[str, dict[str, Any]] = _filled(loaded["services"], variables)
    return filled


def text_without_comments() -> str:
    """The file as it is written, without what only people read."""
    lines = (ROOT / "docker-compose.yml").read_text().splitlines()
    return "\n".join(re.sub(r"(^|\s)#.*", "", line) for line in lines)


def written_variables() -> dict[str, str]:
    """Every variable of the file and what stands after its name: `:-default`, `:?reason`."""
    found = _VARIABLE.findall(text_without_comments())
    return {name: operator + rest for _, name, operator, rest in found if name}


def _filled(node: Any, variables: Mapping[str, str]) -> Any:
    match node:
        case dict():
            return {key: _filled(value, variables) for key, value in node.items()}
        case list():
            return [_filled(value, variables) for value in node]
        case str():
            return _VARIABLE.sub(lambda found: _value(found, variables), node)
        case _:
            return node


def _value(found: re.Match[str], variables: Mapping[str, str]) -> str:
    dollar, name, operator, rest = found.groups()
    if dollar:
        return "$"
    value = variables.get(name, "")
    if value or operator is None:
        return value
    if operator == ":?":
        raise Missing(f"{name}: {rest}")
    return str(rest)
