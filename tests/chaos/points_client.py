"""Owners as processes: each thing they do runs in one of its own, and is done again if that dies.

Reads orders from standard input, a JSON line each, `{"run_id", "case", "title", "verbs"}`, carries
out the verbs of a line one after the other, and writes the run's id when the last one is done.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from models.approvals import grant_call
from models.database import Database
from models.owner import resume_run, steer_run, stop_run, verify_receipt
from models.sources import Notice, record_notice, tell_runs
from tests.cases.case_file import Case
from tests.cases.record import Record, read_record
from tests.cases.system import accept_case
from tests.chaos.points_commands import OWNER
from tests.worker_processes import wait_until
from umbel.contracts import CallId, RunId, ThreadId
from umbel.names import SteerMode

# The hook of the fault points, read here once and not by each child in the middle of its work.
importlib.import_module("tests.chaos.crash_hook")

LONGEST_SECONDS: Final = 240.0
_SETTLED_AT: Final = "SELECT settled_at FROM runs WHERE id = %(run_id)s"
_ASKED: Final = (
    "SELECT id, args_sha FROM calls WHERE run_id = %(run_id)s AND state = 'awaiting_approval'"
)


@dataclass(slots=True)
class Errand:
    """What one owner still has to do."""

    run_id: RunId
    case: Case
    verbs: list[str]


def _accept(database: Database, errand: Errand) -> None:
    accept_case(database, errand.case, errand.run_id)


def _follow_on(database: Database, errand: Errand) -> None:
    """Ask for another run of the same thread; it waits for its turn."""
    [rows] = database.run(
        ("SELECT thread_id FROM runs WHERE id = %(run_id)s", {"run_id": errand.run_id})
    )
    thread_id = ThreadId(rows[0]["thread_id"])
    run_id, case = follower_of(errand.run_id), case_of_follower(errand.case)
    accept_case(database, case, run_id, thread_id=thread_id)


def _stop(database: Database, errand: Errand) -> None:
    stop_run(database, errand.run_id, OWNER)


def _steer(database: Database, errand: Errand) -> None:
    mode: SteerMode = "redirect" if ord(errand.run_id[-1]) % 2 else "append"
    steer_run(database, errand.run_id, OWNER, "Be brief.", mode)


def _verify(database: Database, errand: Errand) -> None:
    """Find out outside what became of each unknown change, and say so."""
    for call in _settled(database, errand.run_id).calls:
        if call["state"] == "unknown":
            call_id = CallId(call["id"])
            verify_receipt(
                database,
                errand.run_id,
                call_id,
                OWNER,
                "not_happened",
                "Looked, and found nothing.",
            )


def _notice(database: Database, errand: Errand) -> None:
    """Say that the source of the run has changed; of one that was accepted, once it was read.

    A run that was stopped before reads nothing any more.
    """
    if "accept" not in errand.verbs:
        wait_until(lambda: _has_read(database, errand.run_id), LONGEST_SECONDS, "it is read")
    _, untold = record_notice(database, OWNER.tenant, Notice(f"note:{errand.run_id}", "2"))
    if untold is not None:
        list(tell_runs(database, untold))


def _has_read(database: Database, run_id: str) -> bool:
    query = """
    SELECT 1 AS found FROM evidence_sources WHERE run_id = %(run_id)s
    UNION ALL SELECT 1 FROM runs WHERE id = %(run_id)s AND settled_at IS NOT NULL
    """
    [rows] = database.run((query, {"run_id": run_id}))
    return bool(rows)


def _approve(database: Database, errand: Errand) -> None:
    """Let everything be done that the run asks for, until it has come to rest."""

    def has_settled() -> bool:
        facts = {"run_id": errand.run_id}
        asked, runs = database.run((_ASKED, facts), (_SETTLED_AT, facts))
        for row in asked:
            grant_call(database, CallId(row["id"]), OWNER, bytes(row["args_sha"]))
        return runs[0]["settled_at"] is not None

    wait_until(has_settled, LONGEST_SECONDS, f"{errand.run_id} settles")


def _resume(database: Database, errand: Errand) -> None:
    _settled(database, errand.run_id)
    resume_run(database, errand.run_id, OWNER)


VERBS: Final[Mapping[str, Callable[[Database, Errand], None]]] = {
    "accept": _accept,
    "follow_on": _follow_on,
    "stop": _stop,
    "steer": _steer,
    "verify": _verify,
    "resume": _resume,
    "approve": _approve,
    "notice": _notice,
}


def follower_of(run_id: str) -> RunId:
    """The run that is asked for behind this one, in the same thread."""
    return RunId(f"{run_id[:-1]}{'1' if run_id[-1] == '0' else '0'}")


def case_of_follower(case: Case) -> Case:
    """The same under another title, and so with a model of its own."""
    return Case(Path(f"{case.title}-follower.json"), case.data)


def main() -> None:
    """Do what is asked until standard input ends: then nobody is there who wants it."""
    at_work: dict[int, Errand] = {}
    text, is_open = "", True
    while is_open:
        if select.select([sys.stdin], [], [], 0.01)[0]:
            piece = os.read(sys.stdin.fileno(), 65536).decode()
            is_open = bool(piece)
            *lines, text = (text + piece).split("\n")
            for line in lines:
                _begin(_parse(line), at_work)
        _look_after(at_work)
    for pid in at_work:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _look_after(at_work: dict[int, Errand]) -> None:
    """Go on with whoever has ended; a process that did not end well is repeated."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            errand = at_work.pop(ended[0])
            if ended[1] == 0:
                errand.verbs.pop(0)
            if errand.verbs:
                _begin(errand, at_work)
            else:
                print(errand.run_id, flush=True)  # noqa: T201 - the answer


def _begin(errand: Errand, at_work: dict[int, Errand]) -> None:
    pid = os.fork()
    if pid:
        at_work[pid] = errand
        return
    code = 1
    try:
        os.setpgid(0, 0)  # it may be stopped alone
        database = Database(os.environ["UMBEL_DATABASE_URL"], role="owner", pool_size=1)
        VERBS[errand.verbs[0]](database, errand)
        code = 0
    except Exception as error:  # noqa: BLE001 - the parent repeats it
        print(f"owner: {error!r}", file=sys.stderr, flush=True)  # noqa: T201 - a child's last words
    finally:
        os._exit(code)


def _parse(line: str) -> Errand:
    asked: dict[str, Any] = json.loads(line)
    case = Case(Path(f"{asked['title']}.json"), asked["case"])
    return Errand(RunId(asked["run_id"]), case, list(asked["verbs"]))


def _settled(database: Database, run_id: str) -> Record:
    """The record of the run, once it has come to rest."""

    def has_settled() -> bool:
        [rows] = database.run((_SETTLED_AT, {"run_id": run_id}))
        return rows[0]["settled_at"] is not None

    wait_until(has_settled, LONGEST_SECONDS, f"{run_id} settles")
    return read_record(database, run_id)


if __name__ == "__main__":
    main()
