"""The commands, their options and help; each hands over to the module that does it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from umbel import __version__
from umbel.cli import examples
from umbel.cli.ending import ends_with_code
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
runs = typer.Typer(no_args_is_help=True, help="Look at runs: list, get, steps.")
db = typer.Typer(no_args_is_help=True, help="Make or check the tables in PostgreSQL.")
app.add_typer(runs, name="runs")
app.add_typer(db, name="db")

Json = Annotated[bool, typer.Option("--json", help="JSON, one object a line, and nothing else.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Read data that `umbel run --keep` left, not the database."
    ),
]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, or a beginning of it that fits one run.")
]


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


@db.command("migrate", short_help=examples.MIGRATE_SHORT, epilog=examples.DB_MIGRATE)
@ends_with_code
def migrate_database() -> int:
    """Bring the tables to this version; safe to repeat and to run twice at once."""
    from umbel.cli.db_commands import migrate_command

    return migrate_command()


@db.command("check", epilog=examples.DB_CHECK)
@ends_with_code
def check_database() -> int:
    """Say whether the tables are this version's; exit code 1 if not. Changes nothing."""
    from umbel.cli.db_commands import check_command

    return check_command()
