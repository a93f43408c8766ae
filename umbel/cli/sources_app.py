"""`umbel sources`: its commands, their options and help."""

from typing import Annotated

import typer

from umbel.cli import acting_examples as examples
from umbel.cli.ending import ends_with_code
from umbel.cli.options import Json, RunningData
from umbel.cli.usage_line import PlainUsage

sources = typer.Typer(
    no_args_is_help=True,
    help="Say that something has changed which runs have read.",
    rich_markup_mode=None,
)

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="KIND:ID as tools name it: file:/absolute/path, page:https://…"
    ),
]
Revision = Annotated[
    str | None,
    typer.Option(metavar="REV", help="Which it has now; of whole numbers an older one is ignored."),
]


@sources.command("changed", cls=PlainUsage, epilog=examples.SOURCES_CHANGED)
@ends_with_code
def source_changed(
    source: Source,
    revision: Revision = None,
    text: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="For runs that were given its text; - reads stdin."),
    ] = None,
    json: Json = False,
    data: RunningData = None,
) -> int:
    """Let runs that have read it read it again, before they ask the model next.

    What such a run has not committed yet is decided anew; changes that wait, and approvals of them,
    are void. What was started goes on, and nothing that was done is done again. Without a revision
    every notice counts; with one the same notice again is no news.
    """
    from umbel.cli.sources import notice_command

    return notice_command(source, data, revision=revision, text=text, is_json=json)


@sources.command("deleted", cls=PlainUsage, epilog=examples.SOURCES_DELETED)
@ends_with_code
def source_deleted(
    source: Source,
    revision: Revision = None,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why, for the model: up to 500 characters.")
    ] = "",
    json: Json = False,
    data: RunningData = None,
) -> int:
    """Let runs that have read it know that it is gone: they see a gap in place of its text.

    The model may answer in part and say what is missing. Otherwise as `umbel sources changed`.
    """
    from umbel.cli.sources import notice_command

    return notice_command(
        source, data, revision=revision, reason=reason, is_deleted=True, is_json=json
    )
