"""`umbel runs`: its commands, their options and help."""

from pathlib import Path
from typing import Annotated

import typer

from umbel.cli import examples
from umbel.cli.ending import ends_with_code
from umbel.cli.options import Data, Json, RunArgument
from umbel.cli.usage_line import PlainUsage

runs = typer.Typer(
    no_args_is_help=True,
    help="Enqueue runs, look at them, correct and stop them.",
    rich_markup_mode=None,
)


@runs.command("list", epilog=examples.RUNS_LIST)
@ends_with_code
def list_runs(
    status: Annotated[
        list[str] | None, typer.Option(metavar="STATUS", help=examples.STATUS)
    ] = None,
    reason: Annotated[
        list[str] | None, typer.Option(metavar="REASON", help=examples.REASON)
    ] = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this agent.")] = None,
    owner: Annotated[str | None, typer.Option(metavar="USER", help="Only of this owner.")] = None,
    thread: Annotated[
        str | None, typer.Option(metavar="THREAD", help="Only of this thread.")
    ] = None,
    age: Annotated[
        str | None, typer.Option(metavar="AGE", help="At most so old: 90s, 30m, 2h, 3d or 1w.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Accepted at or after, in UTC.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Accepted before, in UTC.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="All of them stand in the request or the answer."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    after: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on after this run, to older ones.")
    ] = None,
    json: Json = False,
    data: Data = None,
) -> int:
    """The newest runs: where each stands, and who works on it now."""
    from umbel.cli.runs_list import ListOptions, list_command

    options = ListOptions(
        statuses=tuple(status or ()),
        reasons=tuple(reason or ()),
        agent=agent,
        owner=owner,
        thread=thread,
        since=since,
        until=until,
        age=age,
        text=text,
        limit=limit,
        after=after,
    )
    return list_command(options, data, is_json=json)


@runs.command("get", cls=PlainUsage, short_help=examples.GET_SHORT, epilog=examples.RUNS_GET)
@ends_with_code
def get_run(run: RunArgument, json: Json = False, data: Data = None) -> int:
    """One run: where it stands, what it used, its story in order, its answer.

    The story has one line for everything that happened: who did it, when, what it cost, and the
    exact arguments of every change.
    """
    from umbel.cli.runs_commands import get_command

    return get_command(run, data, is_json=json)


@runs.command("steps", cls=PlainUsage, short_help=examples.STEPS_SHORT, epilog=examples.RUNS_STEPS)
@ends_with_code
def steps_of_run(run: RunArgument, json: Json = False, data: Data = None) -> int:
    """Every step: each model attempt with its decision, tokens, cost and time, and its calls."""
    from umbel.cli.runs_commands import steps_command

    return steps_command(run, data, is_json=json)


@runs.command(
    "context", cls=PlainUsage, short_help=examples.CONTEXT_SHORT, epilog=examples.RUNS_CONTEXT
)
@ends_with_code
def context_of_step(
    run: RunArgument,
    step: Annotated[int, typer.Argument(min=1, metavar="STEP", help="Number of the step.")],
    attempt: Annotated[
        int | None,
        typer.Option(
            "--attempt", min=1, metavar="N", help="Of its model calls; unset: the one that counted."
        ),
    ] = None,
    json: Json = False,
    data: Data = None,
) -> int:
    """The request that a step sent to its model: the same bytes, at any later time.

    It is built again from the record and compared with the hash of what was sent. With --attempt
    also a request that failed, or one for a summary of earlier steps. With --json what it was built
    from stands beside it: what was left out, how large it was.
    """
    from umbel.cli.runs_context import context_command

    return context_command(run, step, attempt, data, is_json=json)


@runs.command("tail", cls=PlainUsage, short_help=examples.TAIL_SHORT, epilog=examples.RUNS_TAIL)
@ends_with_code
def tail_run(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run's id, or a beginning of it.")
    ] = None,
    after: Annotated[
        int,
        typer.Option("--from", min=0, metavar="SEQ", help="Go on after the event of this number."),
    ] = 0,
    no_follow: Annotated[
        bool, typer.Option("--no-follow", help="End with what has happened by now.")
    ] = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """What happens to a run as it happens, until it stands still; without RUN, to all of them.

    Everything that is recorded is shown once, in order, and between it what the model is writing.
    Interrupted, the command names the line to go on with. It outlives a PostgreSQL or a Redis that
    is away for a while. A paused run stands still: `umbel runs tail` without RUN shows when it is
    resumed.

    Exit code 0 once the run is completed, 1 when it stands still otherwise.
    """
    from umbel.cli.runs_tail import tail_all_command, tail_command

    if run is None:
        return tail_all_command(data, after=after, is_json=json, is_following=not no_follow)
    return tail_command(run, data, after=after, is_json=json, is_following=not no_follow)


@runs.command("create", cls=PlainUsage, short_help=examples.CREATE_SHORT, epilog=examples.CREATE)
@ends_with_code
def create_run(
    request: Annotated[
        str,
        typer.Argument(metavar="REQUEST", help="What the agent should do; - reads it from stdin."),
    ],
    agent: Annotated[str, typer.Option(metavar="NAME", help="Agent of umbel.toml.")] = "default",
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model to ask, instead of the agent's.")
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The one folder its file tools may touch; unset: none."),
    ] = None,
    thread: Annotated[
        str | None, typer.Option(metavar="THREAD", help="Go on in an earlier run's thread.")
    ] = None,
    run_id: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="An id of your own: the same id again is the same run."),
    ] = None,
    new_thread: Annotated[
        bool, typer.Option("--new-thread", help="The id of --thread may be one of a new thread.")
    ] = False,
    tail: Annotated[bool, typer.Option("--tail", help="Follow it until it stands still.")] = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Enqueue a request on the system that runs, and say how to follow it.

    The run is accepted once its id is shown, whoever dies then. What the agent may change is up to
    the agent's permission. Workers have to be running: without any, the command says so.
    """
    from umbel.cli.runs_create import CreateOptions, create_command

    options = CreateOptions(request, agent, model, workspace, thread, run_id, new_thread)
    return create_command(options, data, is_tailing=tail, is_json=json)
