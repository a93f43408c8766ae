"""`umbel runs steer|stop|resume|follow-up`: commands that do something to a run, and their help."""

from typing import Annotated, Final

import typer

from umbel.cli import acting_examples as examples
from umbel.cli.ending import ends_with_code
from umbel.cli.options import Json, RunArgument, RunningData
from umbel.cli.runs_app import runs
from umbel.cli.usage_line import PlainUsage
from umbel.names import ON_BUSY, STEER_MODES

__all__ = ["runs"]

_MODES: Final = f"One of {', '.join(STEER_MODES)}."
_ON_BUSY: Final = f"While a run is at work in the thread: one of {', '.join(ON_BUSY)}."
Key = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="A word of your own: the same one again is one action."),
]

Followed = Annotated[
    bool, typer.Option("--wait", help="Follow it until it stands still; code 0 if completed.")
]


@runs.command("steer", cls=PlainUsage, short_help=examples.STEER_SHORT, epilog=examples.STEER)
@ends_with_code
def steer_run(
    run: RunArgument,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The correction; - reads it from stdin.")
    ],
    mode: Annotated[str, typer.Option(metavar="MODE", help=_MODES)] = "redirect",
    key: Key = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until the model has been asked with it; else code 1.")
    ] = False,
    json: Json = False,
    data: RunningData = None,
) -> int:
    """Correct a run that works, waits or is paused: its next request holds the text.

    `redirect` gives up what the model is saying and what has not started; `append` lets the step
    finish. What has been started goes on and is recorded either way.
    """
    from umbel.cli.runs_steer import steer_command

    return steer_command(run, text, data, mode=mode, key=key, is_waiting=wait, is_json=json)


@runs.command("stop", cls=PlainUsage, short_help=examples.STOP_SHORT, epilog=examples.STOP)
@ends_with_code
def stop_run(
    run: RunArgument,
    key: Key = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until everything that was started has ended.")
    ] = False,
    json: Json = False,
    data: RunningData = None,
) -> int:
    """Let nothing of a run start any more, and say what is still draining.

    What was started before may end, and its outcome is recorded. A stopped run can be resumed.
    """
    from umbel.cli.runs_stop import stop_command

    return stop_command(run, data, key=key, is_waiting=wait, is_json=json)


@runs.command("resume", cls=PlainUsage, short_help=examples.RESUME_SHORT, epilog=examples.RESUME)
@ends_with_code
def resume_run(
    run: RunArgument,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N", help="Another limit, such as tool_call_limit=40."),
    ] = None,
    key: Key = None,
    wait: Followed = False,
    json: Json = False,
    data: RunningData = None,
) -> int:
    """Let a paused, failed or cancelled run go on where it stood.

    Refused while nobody knows whether one of its changes happened (`umbel receipts verify`), and
    while another run works in its thread.
    """
    from umbel.cli.runs_resume import resume_command

    return resume_command(run, data, limits=limit or (), key=key, is_waiting=wait, is_json=json)


@runs.command(
    "follow-up", cls=PlainUsage, short_help=examples.FOLLOW_UP_SHORT, epilog=examples.FOLLOW_UP
)
@ends_with_code
def follow_up_run(
    run: RunArgument,
    request: Annotated[
        str, typer.Argument(metavar="REQUEST", help="What to do now; - reads it from stdin.")
    ],
    on_busy: Annotated[str, typer.Option(metavar="WHAT", help=_ON_BUSY)] = "enqueue",
    run_id: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="An id of your own: the same id again is one request."),
    ] = None,
    wait: Followed = False,
    json: Json = False,
    data: RunningData = None,
) -> int:
    """Ask for more in the thread of a run, of the same agent, model and workspace.

    The new run knows what the thread's runs before it have said and done. While one is at work
    there, this waits its turn (`enqueue`), is refused (`reject`), stops that run first
    (`interrupt`; runs that were queued before keep their turn), or is given to it as a correction
    (`steer`).
    """
    from umbel.cli.runs_follow_up import follow_up_command

    return follow_up_command(
        run,
        request,
        data,
        on_busy=on_busy,
        new_run_id=run_id,
        is_waiting=wait,
        is_json=json,
    )
