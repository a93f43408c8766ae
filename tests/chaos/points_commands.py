"""Owners' commands that race with a fault point: given while a process stands there."""

import os
import random
import threading
from pathlib import Path
from typing import Final, Literal, cast, get_args

from locks.ownership import connect
from locks.wake_ups import WakeUps
from models.database import Database
from models.owner import steer_run, stop_run
from umbel.contracts import Principal, RunId
from umbel.errors import Unavailable

Command = Literal["stop", "redirect", "append"]
Answer = Literal["accepted", "refused"]
COMMANDS: Final[tuple[Command, ...]] = get_args(Command)
OWNER: Final = Principal(tenant="cases", user="owner")
"""Whose runs `accept_case` makes."""
LOOSE: Final = "CRASH_LOOSE"
"""Set: the process goes on while the command is given, a little later."""
_LATEST_SECONDS: Final = 0.03


def command(words: str, answer: Path) -> None:
    """Give `COMMAND RUN` from a session of its own, and write how it was answered."""
    if os.environ.get(LOOSE):
        threading.Thread(target=_later, args=(words, answer), daemon=True).start()
    else:
        _give(words, answer)


def _later(words: str, answer: Path) -> None:
    threading.Event().wait(random.uniform(0, _LATEST_SECONDS))
    _give(words, answer)


def _give(words: str, answer: Path) -> None:
    verb, _, run_id = words.partition(" ")
    said: Answer = "accepted" if _is_accepted(cast("Command", verb), RunId(run_id)) else "refused"
    unready = answer.with_suffix(".unready")
    unready.write_text(said)
    unready.rename(answer)


def _is_accepted(verb: Command, run_id: RunId) -> bool:
    database = Database(os.environ["UMBEL_DATABASE_URL"], role="owner", pool_size=1)
    try:
        while True:
            try:
                return _commanded(database, verb, run_id)
            except Unavailable:
                continue  # the run stayed locked for long
    finally:
        database.close()


def _commanded(database: Database, verb: Command, run_id: RunId) -> bool:
    if verb == "stop":
        done = stop_run(database, run_id, OWNER) is not None
    else:
        done = steer_run(database, run_id, OWNER, "Leave the mails.", verb) is not None
    if done:
        with connect(os.environ["UMBEL_REDIS_URL"], role="owner") as client:
            WakeUps(client, prefix=os.environ["UMBEL_REDIS_PREFIX"]).send([run_id])
    return done
