"""Planted faults about captures; test_mutants.py asks the tests beside it for each of them."""

from collections.abc import Callable
from typing import Any, Final

from models import captures, evidence, hot_settle
from models.database import Database
from tests.models import test_captures

Scenario = Callable[[Database, str], object]


def of_captures(name: str, *more: Any) -> Scenario:
    """A test of test_captures.py."""
    test = getattr(test_captures, name)
    return lambda database, _: test(database, *more)


HOLDER: Final = of_captures("test_only_the_holder_of_the_attempt_writes")
LOST: Final = of_captures("test_what_a_lost_attempt_wrote_is_not_seen_and_is_swept")
UNKNOWN: Final = of_captures("test_a_change_writes_on_while_nobody_knows_its_outcome")
TWICE: Final = of_captures("test_a_chunk_written_twice_is_one_chunk")
DEADLINE: Final = of_captures("test_what_is_written_moves_the_deadline")
LATE: Final = of_captures("test_a_capture_without_evidence_cannot_be_kept_by_a_late_settle")
PAGES: Final = of_captures("test_pages_of_a_chunked_result_are_the_result")
FOREIGN: Final = of_captures(
    "test_a_handle_of_somebody_else_is_no_handle", {"thread_id": "thr_other"}
)

CAPTURE_MUTANTS: Final[list[tuple[str, Any, str, list[tuple[str, str]], Scenario]]] = [
    ("chunk of any worker", captures, "_ADD_CHUNK", [(" AND holder = %(worker)s", "")], HOLDER),
    ("chunk of any attempt", captures, "_ADD_CHUNK", [(" AND attempt = %(attempt)s", "")], HOLDER),
    (
        "chunk of a settled call",
        captures,
        "_ADD_CHUNK",
        [("(state = 'started' OR (state = 'unknown' AND effect = 'mutation'))", "true")],
        HOLDER,
    ),
    (
        "no chunk of an unknown change",
        captures,
        "_ADD_CHUNK",
        [(" OR (state = 'unknown' AND effect = 'mutation')", "")],
        UNKNOWN,
    ),
    (
        "chunk that is no sign of life",
        captures,
        "_ADD_CHUNK",
        [("clock_timestamp() + make_interval(secs => stall_seconds)", "deadline_at")],
        DEADLINE,
    ),
    (
        "chunk that cannot be repeated",
        captures,
        "_ADD_CHUNK",
        [("ON CONFLICT (capture_id, start_char) DO NOTHING", "")],
        TWICE,
    ),
    (
        "late capture that is kept",
        hot_settle,
        "KEEP_CAPTURE",
        [(" AND e.capture_id = captures.id", "")],
        LATE,
    ),
    ("capture that is not kept", hot_settle, "KEEP_CAPTURE", [("= true", "= false")], LOST),
    (
        "sweep of open calls",
        captures,
        "_SWEEP",
        [("c.state IN ('returned', 'refused', 'errored', 'skipped')", "true")],
        LOST,
    ),
    (
        "sweep of unknown changes",
        captures,
        "_SWEEP",
        [("'skipped')", "'skipped', 'unknown')")],
        UNKNOWN,
    ),
    ("sweep of what is kept", captures, "_SWEEP", [("NOT k.is_kept AND ", "")], LOST),
    (
        "page without its last chunk",
        evidence,
        "_PAGE",
        [("c.start_char < %", "c.start_char + 9 < %")],
        PAGES,
    ),
    ("page of anybody", evidence, "_PAGE", [("e.thread_id = %(thread_id)s AND ", "")], FOREIGN),
    ("line of anybody", evidence, "_PART", [("e.thread_id = %(thread_id)s AND ", "")], FOREIGN),
]
