"""The commands, their options and help; each hands over to the module that does it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from umbel import __version__
from umbel.cli import examples
from umbel.cli.approvals_app import approvals
from umbel.cli.authority_app import authority
from umbel.cli.ending import ends_with_code
from umbel.cli.options import Data, Json, RunningData
from umbel.cli.receipts_app import receipts
from umbel.cli.runs_acts_app import runs
from umbel.cli.sources_app import sources
from umbel.cli.threads_app import threads
from umbel.cli.usage_line import PlainUsage

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=examples.UMBEL,
    epilog=examples.EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
db = typer.Typer(no_args_is_help=True, help="Make or check the tables in PostgreSQL.")
app.add_typer(runs, name="runs")
app.add_typer(approvals, name="approvals")
app.add_typer(receipts, name="receipts")
app.add_typer(threads, name="threads")
app.add_typer(authority, name="authority")
app.add_typer(sources, name="sources")
app.add_typer(db, name="db")


def run_command_line(arguments: Sequence[str]) -> None:
    """Carry out one command line and exit the process."""
    app(list(arguments), prog_name="umbel")


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"umbel {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    pass


@app.command(cls=PlainUsage, epilog=examples.RUN)
@ends_with_code
def run(
    request: Annotated[
        str,
        typer.Argument(metavar="REQUEST", help="What the agent should do; - reads it from stdin."),
    ],
    agent: Annotated[str, typer.Option(metavar="NAME", help="Agent of umbel.toml.")] = "default",
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model to ask, instead of the agent's.")
    ] = None,
    workspace: Annotated[
        Path, typer.Option(metavar="DIR", help="The one folder its file tools may touch.")
    ] = Path(),
    json: Json = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the data and say how to look at it later.")
    ] = False,
) -> int:
    """Carry one request through the real system and show every step.

    PostgreSQL, Redis and the model are the ones the settings name; what they do not name is started
    here and ended afterwards. Without a model, a script that says it is one answers. File tools get
    full access inside the workspace, which is the current folder, and none outside.
    """
    from umbel.cli.run_session import run_session  # heavy: the first line must not wait for it

    return run_session(
        request, agent=agent, model=model, workspace=workspace, is_json=json, keep=keep
    )


@app.command(cls=PlainUsage, epilog=examples.UP)
@ends_with_code
def up(
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Where data and logs are kept between starts."),
    ] = None,
    json: Json = False,
) -> int:
    """Run the whole system until Ctrl-C.

    Workers, two beats, Flower, and what servers are missing.

    PostgreSQL and Redis are the ones the settings name; what they do not name is started here, with
    its data kept, so that runs survive a restart of everything. A process that dies is started
    again. SIGTERM and Ctrl-C drain and end everything in order.
    """
    from umbel.cli.up_command import up_command

    return up_command(data, is_json=json)


@app.command(cls=PlainUsage, epilog=examples.DOCTOR)
@ends_with_code
def doctor(
    json: Json = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also show every setting and where it is from.")
    ] = False,
    invariants: Annotated[
        bool, typer.Option("--invariants", help="Also check the record against its invariants.")
    ] = False,
    data: RunningData = None,
) -> int:
    """Look at every part, say how it is, and what to do where something is wrong.

    Changes nothing: only a message goes through a queue of its own, which is removed again. Exit
    code 1 where there is a problem; warnings alone are 0.
    """
    from umbel.cli.doctor_command import doctor_command

    return doctor_command(data, is_json=json, with_invariants=invariants, is_verbose=verbose)


@app.command(cls=PlainUsage, short_help=examples.USAGE_SHORT, epilog=examples.USAGE)
@ends_with_code
def usage(
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP",
            help="day, agent, model, purpose or owner; may be repeated. Default: day.",
        ),
    ] = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this agent.")] = None,
    owner: Annotated[str | None, typer.Option(metavar="USER", help="Only of this owner.")] = None,
    age: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Asked at most so long ago: 2h, 3d, 1w. Default: 30d."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Asked at or after, in UTC.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Asked before, in UTC.")] = None,
    json: Json = False,
    data: Data = None,
) -> int:
    """What model calls used and cost, those that failed included.

    What is not known is never counted as zero: calls that reported no tokens, and models without a
    price in umbel.toml, are counted beside the sums.
    """
    from umbel.cli.usage import UsageOptions, usage_command

    options = UsageOptions(tuple(by or ()), agent, owner, since, until, age)
    return usage_command(options, data, is_json=json)


@app.command(cls=PlainUsage, epilog=examples.FLOWER)
@ends_with_code
def flower() -> int:
    """Serve Flower behind a password: names and ids only.

    It listens on this machine only, unless UMBEL_FLOWER_ADDRESS says otherwise.
    """
    from umbel.cli.flower_command import flower_command

    return flower_command()


@db.command("migrate", short_help=examples.MIGRATE_SHORT, epilog=examples.DB_MIGRATE)
@ends_with_code
def migrate_database(data: RunningData = None) -> int:
    """Bring the tables to this version; safe to repeat and to run twice at once."""
    from umbel.cli.db_commands import migrate_command

    return migrate_command(data)


@db.command("check", epilog=examples.DB_CHECK)
@ends_with_code
def check_database(data: RunningData = None) -> int:
    """Say whether the tables are this version's; exit code 1 if not. Changes nothing."""
    from umbel.cli.db_commands import check_command

    return check_command(data)
