"""`umbel authority`: its commands, their options and help."""

from typing import Annotated

import typer

from umbel.cli import acting_examples as examples
from umbel.cli.ending import ends_with_code
from umbel.cli.options import Data, Json, RunningData
from umbel.cli.usage_line import PlainUsage

authority = typer.Typer(
    no_args_is_help=True,
    help="Rules above every run: freeze, switch off, protect, revoke.",
    rich_markup_mode=None,
)

_Thing = Annotated[
    str,
    typer.Argument(
        metavar="THING", help="What it is about: tenant, user:NAME, tool:NAME or target:NAME."
    ),
]
_Why = Annotated[
    str, typer.Argument(metavar="WHY", help="For the record; - reads it from standard input.")
]


@authority.command("list", epilog=examples.AUTHORITY_LIST)
@ends_with_code
def list_rules(
    everything: Annotated[
        bool, typer.Option("--all", help="Also what was taken back or said anew since.")
    ] = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """The rules that count now, newest first, with who said them and why."""
    from umbel.cli.authority import list_command

    return list_command(data, is_whole=everything, is_json=json)


@authority.command(
    "deny", cls=PlainUsage, short_help=examples.DENY_SHORT, epilog=examples.AUTHORITY_DENY
)
@ends_with_code
def deny(thing: _Thing, why: _Why, json: Json = False, data: RunningData = None) -> int:
    """Forbid it, in runs that are at work too: when this returns, nothing more of it starts.

    The tenant: no run changes anything (a freeze). A tool: it is not called. A target, with
    everything below it, or with all that begins so when it ends in *: nothing changes it. A user:
    their runs do nothing, are told nothing, and no new one is accepted.
    """
    from umbel.cli.authority import say_command

    return say_command("deny", thing, why, data, is_json=json)


@authority.command(
    "ask", cls=PlainUsage, short_help=examples.ASK_SHORT, epilog=examples.AUTHORITY_ASK
)
@ends_with_code
def ask(thing: _Thing, why: _Why, json: Json = False, data: RunningData = None) -> int:
    """Let every change of it wait for the owner of its run, whatever the run's permission."""
    from umbel.cli.authority import say_command

    return say_command("ask", thing, why, data, is_json=json)


@authority.command(
    "allow", cls=PlainUsage, short_help=examples.ALLOW_SHORT, epilog=examples.AUTHORITY_ALLOW
)
@ends_with_code
def allow(thing: _Thing, why: _Why, json: Json = False, data: RunningData = None) -> int:
    """Take back what was said about it: it widens nothing that another rule or a run forbids."""
    from umbel.cli.authority import say_command

    return say_command("allow", thing, why, data, is_json=json)
