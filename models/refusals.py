"""Tells a PostgreSQL that refuses us, which takes a correction, from one that does not answer."""

import re
from typing import Final

from umbel.errors import Misconfigured, Unavailable

_VARIABLE: Final = "UMBEL_DATABASE_URL"
_REFUSED: Final = re.compile(r"\bFATAL:|no password supplied|password authentication failed")
_PASSING: Final = re.compile(
    r"starting up|shutting down|recovery|accepting connections|too many|connection slots"
    r"|terminating connection"
)
"""Refusals that end by themselves."""
_NEXT: Final = (
    (
        re.compile(r'database "(?P<name>[^"]*)" does not exist'),
        "Create it with `createdb {name}`, or correct the database in {variable}.",
    ),
    (
        re.compile(r'role "(?P<name>[^"]*)" does not exist'),
        "Create it with `createuser {name}`, or correct the user in {variable}.",
    ),
    (
        re.compile(r"password|authentication"),
        "Correct the user and password in {variable}.",
    ),
    (
        re.compile(r"pg_hba\.conf"),
        "Allow this user and host in the server's pg_hba.conf, or correct {variable}.",
    ),
)


def connection_error(error: BaseException | None) -> Misconfigured | Unavailable:
    """What to raise for a connection that failed with this error of the driver.

    Misconfigured, with the next action, where the server answered and refused; Unavailable where it
    did not answer, or refuses everybody for a while.
    """
    said = one_line(str(error))
    if not _REFUSED.search(said) or _PASSING.search(said):
        return Unavailable(f"PostgreSQL does not answer: {said}.")
    for pattern, advice in _NEXT:
        if match := pattern.search(said):
            action = advice.format(variable=_VARIABLE, **match.groupdict())
            return Misconfigured(f"PostgreSQL refuses the connection: {said}. {action}")
    return Misconfigured(f"PostgreSQL refuses the connection: {said}. Correct {_VARIABLE}.")


def one_line(text: str) -> str:
    """A message of the driver without its line breaks, tabs and last full stop."""
    return " ".join(text.split()).rstrip(".")
