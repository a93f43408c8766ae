"""`umbel receipts`: its commands, their options and help."""

from typing import Annotated

import typer

from umbel.cli import acting_examples as examples
from umbel.cli.ending import ends_with_code
from umbel.cli.options import Data, Json, RunningData
from umbel.cli.usage_line import PlainUsage

receipts = typer.Typer(
    no_args_is_help=True,
    help="Changes that were sent, and what became of them.",
    rich_markup_mode=None,
)


@receipts.command("list", epilog=examples.RECEIPTS_LIST)
@ends_with_code
def list_receipts(
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Only changes of which nobody knows the outcome.")
    ] = False,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Only of this run.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    json: Json = False,
    data: Data = None,
) -> int:
    """The newest changes: their exact arguments, their outcome, what their owner found."""
    from umbel.cli.receipts import list_command

    return list_command(run, data, only_unknown=unknown, limit=limit, is_json=json)


@receipts.command("verify", cls=PlainUsage, epilog=examples.RECEIPTS_VERIFY)
@ends_with_code
def verify_receipt(
    call: Annotated[str, typer.Argument(metavar="CALL", help="The change, `call_…`.")],
    outcome: Annotated[
        str, typer.Argument(metavar="OUTCOME", help="happened, not_happened or partial.")
    ],
    found: Annotated[
        str, typer.Argument(metavar="FOUND", help="How you know; - reads it from stdin.")
    ],
    json: Json = False,
    data: RunningData = None,
) -> int:
    """Say how a change ended whose outcome nobody knew. Sends nothing, resumes nothing.

    What you found, in 10 to 2,000 characters, is what the model is told of the call.
    """
    from umbel.cli.receipts import verify_command

    return verify_command(call, outcome, found, data, is_json=json)
