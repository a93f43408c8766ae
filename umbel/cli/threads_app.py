"""`umbel threads`: its commands, their options and help."""

from typing import Annotated

import typer

from umbel.cli import acting_examples as examples
from umbel.cli.ending import ends_with_code
from umbel.cli.options import Json, RunningData
from umbel.cli.usage_line import PlainUsage

threads = typer.Typer(
    no_args_is_help=True,
    help="Who beside its owner may correct the runs of a thread.",
    rich_markup_mode=None,
)

_Thread = Annotated[
    str, typer.Argument(metavar="THREAD", help="A thread, `thr_…`, or a run of it.")
]


@threads.command(
    "share", cls=PlainUsage, short_help=examples.SHARE_SHORT, epilog=examples.THREADS_SHARE
)
@ends_with_code
def share(
    thread: _Thread,
    users: Annotated[
        list[str], typer.Argument(metavar="USER", help="Everybody who may: nobody else does.")
    ],
    json: Json = False,
    data: RunningData = None,
) -> int:
    """Let these users, and nobody else, correct the runs of your thread.

    They may steer and nothing more. What a run changes after the words of one of them needs your
    approval, whatever its permission.
    """
    from umbel.cli.threads import share_command

    return share_command(thread, users, data, is_json=json)


@threads.command("unshare", cls=PlainUsage, epilog=examples.THREADS_UNSHARE)
@ends_with_code
def unshare(thread: _Thread, json: Json = False, data: RunningData = None) -> int:
    """Make your thread private again. What others have said in it stays said."""
    from umbel.cli.threads import share_command

    return share_command(thread, [], data, is_json=json)
