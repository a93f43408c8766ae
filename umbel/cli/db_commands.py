"""`umbel db`: make the tables, or say how they stand."""

from pathlib import Path

import typer

from models.migration import check, migrate
from umbel.cli import exits
from umbel.cli.places import required_database
from umbel.cli.running_system import settings_in_use


def migrate_command(data: Path | None) -> int:
    """Apply what is missing and say what that was."""
    applied = migrate(required_database(settings_in_use(data)))
    typer.echo(f"applied {', '.join(applied)}" if applied else "nothing to do: up to date")
    return exits.COMPLETED


def check_command(data: Path | None) -> int:
    """Say how the database stands to this version."""
    result = check(required_database(settings_in_use(data)))
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
