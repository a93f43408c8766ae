"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="JSON, one object a line, and nothing else.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The data of `umbel up --data DIR` or `umbel run --keep`, not the settings' database.",
    ),
]
RunningData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The system that `umbel up --data DIR` runs, not the settings' servers.",
    ),
]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, or a beginning of it that fits one run.")
]
