"""`umbel approvals`: its commands, their options and help."""

from typing import Annotated

import typer

from umbel.cli import acting_examples as examples
from umbel.cli.ending import ends_with_code
from umbel.cli.options import Data, Json, RunningData
from umbel.cli.usage_line import PlainUsage

approvals = typer.Typer(
    no_args_is_help=True, help="Changes that wait for their owner.", rich_markup_mode=None
)

_Call = Annotated[str, typer.Argument(metavar="CALL", help="The change, `call_…`.")]
_Seen = Annotated[
    str, typer.Argument(metavar="HASH", help="12 digits or more of the hash that `show` prints.")
]


@approvals.command("list", epilog=examples.APPROVALS_LIST)
@ends_with_code
def list_approvals(
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Only of this run.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
    json: Json = False,
    data: Data = None,
) -> int:
    """Every change that waits now; those of one step are asked about together."""
    from umbel.cli.approvals import list_command

    return list_command(run, data, limit=limit, is_json=json)


@approvals.command("show", cls=PlainUsage, epilog=examples.APPROVALS_SHOW)
@ends_with_code
def show_approval(call: _Call, json: Json = False, data: Data = None) -> int:
    """Exactly what would be sent, byte for byte, and where untrusted text came in.

    What cannot be seen, turns the direction of writing, or mixes alphabets in one word is named.
    """
    from umbel.cli.approvals import show_command

    return show_command(call, data, is_json=json)


@approvals.command("approve", cls=PlainUsage, epilog=examples.APPROVALS_APPROVE)
@ends_with_code
def approve_call(call: _Call, seen: _Seen, json: Json = False, data: RunningData = None) -> int:
    """Let it be sent once, exactly as shown, within an hour.

    A stop, a redirecting correction or a change of its sources voids the approval.
    """
    from umbel.cli.approvals import approve_command

    return approve_command(call, seen, data, is_json=json)


@approvals.command("deny", cls=PlainUsage, epilog=examples.APPROVALS_DENY)
@ends_with_code
def deny_call(
    call: _Call,
    seen: _Seen,
    words: Annotated[
        str, typer.Argument(metavar="[WHY]", help="What the model is told; - reads it from stdin.")
    ] = "",
    json: Json = False,
    data: RunningData = None,
) -> int:
    """Let it not be done. The run goes on: that is the result of the call."""
    from umbel.cli.approvals import deny_command

    return deny_command(call, seen, words, data, is_json=json)
