"""The function behind a fault point: raises what a careless library would raise.

The first run that comes to the point is hurt once by a chain of errors, the second by a broken
invariant; later ones pass.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from umbel.errors import InvariantBroken

SEEN: Final = "LEAKING_SEEN"
"""The variable that names a folder for notes of which runs have come."""
WORD: Final = "LEAKING_WORD"
"""The variable that holds what the errors tell."""
POINT: Final = "decide.pre_commit"


def raise_once(_point: str, facts: Mapping[str, str]) -> None:
    """Called by the product at the armed point."""
    folder, word = Path(os.environ[SEEN]), os.environ[WORD]
    try:
        (folder / facts["run_id"]).touch(exist_ok=False)
    except FileExistsError:
        return
    match len(list(folder.iterdir())):
        case 1:
            try:
                os.environ[word]
            except KeyError as error:
                raise ValueError(f"could not parse {word}") from error
        case 2:
            raise InvariantBroken(f"The row {word!r} is corrupt.")
