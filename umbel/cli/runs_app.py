"""`umbel runs`: its commands, their options and help."""

from typing import Annotated

import typer

from umbel.cli import examples
from umbel.cli.ending import ends_with_code
from umbel.cli.options import Data, Json, RunArgument
from umbel.cli.usage_line import PlainUsage

runs = typer.Typer(no_args_is_help=True, help="Look at runs: list, get, steps.")


@runs.command("list", epilog=examples.RUNS_LIST)
@ends_with_code
def list_runs(
    status: Annotated[
        list[str] | None, typer.Option(metavar="STATUS", help=examples.STATUS)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    json: Json = False,
    data: Data = None,
) -> int:
    """The newest runs: where each stands, and who works on it now."""
    from umbel.cli.runs_commands import list_command

    return list_command(tuple(status or ()), limit, data, is_json=json)


@runs.command("get", cls=PlainUsage, short_help=examples.GET_SHORT, epilog=examples.RUNS_GET)
@ends_with_code
def get_run(run: RunArgument, json: Json = False, data: Data = None) -> int:
    """One run: request, calls with their exact arguments, receipts, answer."""
    from umbel.cli.runs_commands import get_command

    return get_command(run, data, is_json=json)


@runs.command("steps", cls=PlainUsage, short_help=examples.STEPS_SHORT, epilog=examples.RUNS_STEPS)
@ends_with_code
def steps_of_run(run: RunArgument, json: Json = False, data: Data = None) -> int:
    """Every step of a run: each model attempt with its decision, tokens and time, and its calls."""
    from umbel.cli.runs_commands import steps_command

    return steps_command(run, data, is_json=json)
