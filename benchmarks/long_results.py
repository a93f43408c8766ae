"""Memory and time of a result of many megabytes: as it is written, and as pages of it are read.

`python -m benchmarks.long_results [MEGABYTES ...]` (default 1, 50 and 200) starts embedded
PostgreSQL. Writing and each way of reading run in a process of their own, through the product's own
code; each prints its seconds, and how far its peak of memory lay above what it held before.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import umbel
from models.database import Database
from models.evidence import ThreadEvidence
from tests.factories import RunWish, a_run
from tests.models.story import call_ids, query
from tests.services import fresh_place, running_services
from tests.tasks.process import a_process, asked, said
from tools.builtin.evidence import evidence_read
from tools.definition import from_function
from tools.trial import TrialContext
from umbel.contracts import CallId, ThreadId

_MEGABYTE: Final = 1_000_000
_ROW: Final = (
    '{"id": %d, "name": "a row of about a hundred characters, as tables have them", "é": "\\\\"}'
)


def peak_bytes() -> int:
    """The most memory that this process has ever held."""
    status = Path("/proc/self/status").read_text()
    [kilobytes] = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return int(kilobytes) * 1024


def tell(role: str, before: int, began: float, **facts: object) -> None:
    """Print what a process has seen."""
    megabytes = round((peak_bytes() - before) / _MEGABYTE, 1)
    seconds = round(time.perf_counter() - began, 3)
    sys.stdout.write(
        json.dumps({"role": role, "s": seconds, "MB_above": megabytes, **facts}) + "\n"
    )


def write(database: Database, megabytes: str) -> None:
    """Carry a call whose tool yields rows of a JSON document."""

    @umbel.tool(effect="read", stall_seconds=600)
    def rows() -> Iterator[str]:
        """Give rows."""
        sent = 0
        yield "["
        for number in range(10**9):
            row = _ROW % number
            sent += len(row) + 2
            if sent > int(megabytes) * _MEGABYTE:
                yield row + "]"
                return
            yield row + ",\n"

    tool = from_function(rows)
    process = a_process(database, tool)
    run = a_run(database, RunWish(tools=(tool,), policy={"permission_mode": "full_access"}))
    process.model.script.extend([asked(("rows", "{}")), said()])
    process.step(run.run_id)
    [call_id] = call_ids(database, run.run_id)
    before, began = peak_bytes(), time.perf_counter()
    told = process.call(call_id)
    chunks = query(database, "SELECT count(*) AS n FROM evidence_chunks")[0]["n"]
    tell("write", before, began, megabytes=int(megabytes), chunks=chunks, told=told)


def read(database: Database, way: str) -> None:
    """Read a page with `evidence_read`."""
    [row] = query(database, "SELECT call_id, thread_id, tenant, total_chars FROM evidence")
    pages = ThreadEvidence(database, ThreadId(row["thread_id"]), row["tenant"])
    context = TrialContext(evidence=pages)
    total = row["total_chars"]
    arguments: dict[str, Any] = {
        "offset": {"offset": total // 2},
        "line": {"line": total // 200},
        "find": {"find": "no such text"},
        "path": {"path": f"$[{total // 200}]"},
    }[way]
    before, began = peak_bytes(), time.perf_counter()
    page = evidence_read(context, CallId(row["call_id"]), **arguments)
    tell(f"read by {way}", before, began, chars=len(page["text"]))


_ROLES: Final = {"write": write, "read": read}
_WAYS: Final = ("offset", "line", "find", "path")


def main(arguments: list[str]) -> int:
    """Play a role in a process of its own, or start them all."""
    if arguments and arguments[0] in _ROLES:
        role, url, what = arguments
        _ROLES[role](Database(url, role="bench", pool_size=2), what)
        return 0
    for megabytes in arguments or ["1", "50", "200"]:
        with running_services() as services, fresh_place(services) as place:
            for role, what in [("write", megabytes), *(("read", way) for way in _WAYS)]:
                command = [sys.executable, "-m", "benchmarks.long_results", role]
                subprocess.run([*command, place.database_url, what], check=True)  # noqa: S603 - our own
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
