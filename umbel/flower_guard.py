"""Keeps Celery's own `flower` command from serving every work to everybody.

Without options it listens on all addresses and asks for no password.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import click

from umbel.errors import Misconfigured

_AUTH_OPTIONS: Final = ("basic_auth", "auth")
_OPEN_TO_ALL: Final = (
    "Flower would listen on every address of this machine. Start `umbel flower`, or give "
    "--address=127.0.0.1, or the address that you mean."
)
_OPEN_TO_ANYBODY: Final = (
    "Flower shows all work and is not started without a password. Set "
    "UMBEL_FLOWER_AUTH=user:password and start `umbel flower`, or give --basic-auth."
)


def _is_told_where(given: Collection[str], environment: Mapping[str, str]) -> bool:
    is_socket = "unix_socket" in given or environment.get("FLOWER_UNIX_SOCKET")
    return bool("address" in given or environment.get("FLOWER_ADDRESS") or is_socket)


def refuse_open_flower(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Nothing, unless this process is Celery's `flower` command without a password or address.

    Args:
        arguments: the words of the command line; options of Flower count wherever they stand.
        environment: Flower reads its options from `FLOWER_*` as well.

    Raises:
        Misconfigured: it would be open.
    """
    context = click.get_current_context(silent=True)
    if context is None or context.invoked_subcommand != "flower":
        return
    given = {word.lstrip("-").partition("=")[0].replace("-", "_") for word in arguments}
    has_auth = any(
        option in given or environment.get(f"FLOWER_{option.upper()}") for option in _AUTH_OPTIONS
    )
    faults: list[str] = []
    if not _is_told_where(given, environment):
        faults.append(_OPEN_TO_ALL)
    if not has_auth:
        faults.append(_OPEN_TO_ANYBODY)
    if faults:
        raise Misconfigured(" ".join(faults))
