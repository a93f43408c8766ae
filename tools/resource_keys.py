"""What a change touches, as one name: changes of one name run one at a time, see `resource_key`.

A tool declares a template, such as `account:{account}`: text with the names of its arguments in
braces, and `{workspace}` for the run's folder. Tools that touch the same thing share its beginning.
"""

import hashlib
from collections.abc import Mapping
from string import Formatter
from typing import Final

from umbel.strict_json import Json
from umbel.target_name import target_name

WORKSPACE: Final = "workspace"
"""The name in a template that stands for the run's folder, whatever the arguments are."""
_MOST_CHARS: Final = 200
"""Longer keys are cut and told apart by their hash: an index has limits."""


def names_in(template: str) -> list[str]:
    """The names in braces, in order.

    Raises:
        ValueError: the template is not well-formed, or has no text or odd fields.
    """
    if not template.strip():
        raise ValueError("it is empty")
    names: list[str] = []
    for _, name, form, conversion in Formatter().parse(template):
        if name is None:
            continue
        if not name.isidentifier() or form or conversion:
            raise ValueError(f"{{{name}}} is no plain name")
        names.append(name)
    return names


def resource_key(template: str, arguments: Mapping[str, Json], workspace: str | None) -> str | None:
    """The key of a call, in one spelling; None when an argument that it needs is not there.

    Args:
        template: as the tool declares it.
        arguments: of the call; texts and numbers count, anything else is as good as missing.
        workspace: the run's folder, if it has one.
    """
    given = {**arguments, WORKSPACE: workspace}
    values: dict[str, str] = {}
    for name in names_in(template):
        match given.get(name):
            case str() as text:
                values[name] = target_name(text)
            case bool() | None | list() | dict():
                return None
            case float() as number if number.is_integer():
                values[name] = str(int(number))
            case number:
                values[name] = str(number)
    return _bounded(template.format(**values))


def _bounded(key: str) -> str:
    if len(key) <= _MOST_CHARS:
        return key
    return f"{key[:_MOST_CHARS]}#{hashlib.sha256(key.encode()).hexdigest()}"
