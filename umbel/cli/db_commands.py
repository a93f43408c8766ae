"""`umbel db`: make the tables, or say how they stand."""

import typer

from models.migration import check, migrate
from umbel.cli import exits
from umbel.cli.places import required_database
from umbel.settings import load_settings


def migrate_command() -> int:
    """Apply what is missing and say what that was."""
    applied = migrate(required_database(load_settings()))
    typer.echo(f"applied {', '.join(applied)}" if applied else "nothing to do: up to date")
    return exits.COMPLETED


def check_command() -> int:
    """Say how the database stands to this version."""
    result = check(required_database(load_settings()))
    if not result.is_current:
        state = "no tables of Umbel" if result.current is None else f"revision {result.current}"
        typer.echo(f"behind: {state}, newest is {result.head}; run `umbel db migrate`")
        return exits.NOT_COMPLETED
    if result.differences:
        typer.echo(f"revision {result.head}, but the tables differ from it:")
        for difference in result.differences:
            typer.echo(f"  {difference}")
        return exits.NOT_COMPLETED
    typer.echo(f"current: revision {result.head}")
    return exits.COMPLETED
