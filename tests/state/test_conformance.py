"""The mirror is the product: every verb on every kind of record that a search has reached."""

from collections.abc import Iterator
from types import ModuleType

import psycopg
import pytest

from models import (
    claiming,
    handing_back,
    hot,
    hot_approvals,
    hot_calls,
    hot_owner,
    hot_settle,
    hot_sweep,
    steps,
)
from models.database import Database
from tests.state.cases import BATCHED, Case
from tests.state.product import VERBS, At, Uncommitted, sweep
from tests.state.record import Claim, Worker
from tests.state.scenarios import SCENARIOS
from tests.state.searched import OF_EACH_KIND, searched
from tests.state.stored import stored_in
from tests.state.tables import Tables, run_id
from tests.worker_processes import wait_until
from umbel.errors import InvariantBroken

# The first test waits for the search of all scenarios.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_PAST_GRACE = "SELECT 1 WHERE pg_postmaster_start_time() < clock_timestamp() - interval '6 seconds'"


@pytest.fixture(scope="session")
def cases() -> list[Case]:
    """A few cases of each kind, from all scenarios together."""
    found: dict[tuple[object, ...], list[Case]] = {}
    for scenario in SCENARIOS:
        for case in searched(scenario)[1]:
            of_kind = found.setdefault(case.kind, [])
            if len(of_kind) < OF_EACH_KIND:
                of_kind.append(case)
    return [case for of_kind in found.values() for case in of_kind]


@pytest.fixture
def tables(shared_url: str) -> Iterator[Tables]:
    """A transaction that nobody commits."""
    tables = Tables(shared_url)
    wait_until(lambda: is_past_grace(tables), 10, "PostgreSQL is up long enough")
    yield tables
    tables.close()


def is_past_grace(tables: Tables) -> bool:
    tables.clear()
    return bool(tables.run(_PAST_GRACE))


@pytest.mark.parametrize("verb", [*VERBS, *BATCHED])
def test_the_product_does_what_the_mirror_does(
    verb: str, cases: list[Case], tables: Tables, shared_url: str
) -> None:
    mine = [case for case in cases if case.verb == verb]
    assert {case.done.is_done for case in mine} == {True, False}, "the search never got there"
    assert differences(verb, mine, tables, shared_url) == []


@pytest.mark.parametrize(
    ("verb", "place", "statement", "old", "new"),
    [
        ("claim_step", hot, "CLAIM", "fence = fence + 1", "fence = fence"),
        ("commit_answer", hot, "DECIDE_ANSWER", "AND steers = %(steers)s", ""),
        ("hand_back", hot, "HAND_BACK", "AND holder = %(worker)s", ""),
        ("book_reply", hot, "BOOK_REPLY", "q.steer_rev <> %(steer_rev)s", "false"),
        ("stop_run", hot_owner, "STOP", "runs.open_calls - k.skipped", "runs.open_calls"),
        ("steer_run", hot_owner, "STEER", "steers = steers + 1", "steers = steers + 2"),
        ("verify_receipt", hot_owner, "VERIFY", "<> 'happened' THEN\n", "= 'x' THEN\n"),
        ("settle_change", hot_owner, "NOTE_LATE", "WHEN x.differs THEN", "WHEN false THEN"),
        ("settle_change", hot_settle, "SETTLE_CHANGE", "(outcome IS NOT NULL)", "false"),
        ("settle_read", hot_settle, "SETTLE_READ", "THEN step + n.steps", "THEN step"),
        ("settle_change", hot_settle, "SETTLE_CHANGE", "(q.pause_reason, ", "(NULL, "),
        ("leave_call", handing_back, "LEAVE_CALL", "AND w.beat_at > now()", "AND now() > now()"),
        ("claim_step", hot, "CLAIM", "pause_reason = NULL", "pause_reason = runs.pause_reason"),
        ("record_intent", hot_calls, "INTENT", "o.quiet_until > clock_timestamp()", "false"),
        ("record_intent", hot_calls, "INTENT", "x.late_outcome = 'done'", "false"),
        ("skip_void_calls", hot_sweep, "VOID_CALLS", "x.late_outcome = 'done'", "false"),
        ("settle_read", hot_settle, "SETTLE_READ", "o.resource_key = p.resource_key", "false"),
        ("record_intent", hot_calls, "INTENT", "c.approval_until > clock_timestamp()", "true"),
        (
            "grant_call",
            hot_approvals,
            "GRANT",
            "THEN 'running' ELSE status",
            "THEN status ELSE status",
        ),
        ("deny_call", hot_approvals, "DENY", "AND c.args_sha = %(args_sha)s", ""),
        ("expire_approvals", hot_approvals, "SETTLE_UNAPPROVED", "WHEN 'ready'", "WHEN 'odd'"),
        ("steer_run", hot_owner, "STEER", "d.data ->> 'key' = %(key)s", "false"),
        ("steer_run", hot_owner, "STEER", "OR t.is_foreign", ""),
        ("steer_run", hot_owner, "STEER", "ANY (h.collaborators)", "ANY ('{guest,eve}'::text[])"),
        ("resume_run", hot_owner, "RESUME", "s.policy_sha = %(policy_was)s::bytea", "true"),
        ("commit_dispatch", hot, "DECIDE_DISPATCH", "calls_used + n.total", "calls_used"),
        ("put_off_step", claiming, "PUT_OFF", "AND work = 'ready'", ""),
        ("stop_run", hot_owner, "STOP", "open_approvals - k.asked", "open_approvals"),
        ("take_over", hot_sweep, "TAKE_OVER", "losses = losses + 1", "losses = losses"),
    ],
)
def test_a_difference_in_one_condition_is_noticed(
    verb: str,
    place: ModuleType,
    statement: str,
    old: str,
    new: str,
    cases: list[Case],
    tables: Tables,
    shared_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql = getattr(place, statement)
    assert old in sql, f"the planted fault no longer fits {statement}: write it anew"
    monkeypatch.setattr(place, statement, sql.replace(old, new))
    mine = [case for case in cases if case.verb == verb]
    assert differences(verb, mine, tables, shared_url) != []


def differences(verb: str, cases: list[Case], tables: Tables, url: str) -> list[str]:
    """What the product's function leaves behind that the mirror does not, case by case."""
    tables.clear()
    tables.put([(case.rows, case.dead, case.policy) for case in cases])
    database = Uncommitted(url, tables)
    try:
        said = run_all(database, verb, cases)
    except psycopg.Error as error:
        return [f"{verb}: {error}"]
    finally:
        database.close()
    stored = stored_in(tables)
    found: list[str] = []
    for number, case in enumerate(cases):
        is_now, done = stored[run_id(number)], case.done
        now = (is_now.rows, is_now.events, is_now.numbers, is_now.oddities)
        mirrored = (done.rows, done.events, done.numbers, ())
        if now != mirrored or said[number] not in (None, done.is_done):
            found.append(f"{case}\n  product: {now}\n  mirror:  {mirrored}")
    return found


def run_all(database: Database, verb: str, cases: list[Case]) -> list[bool | None]:
    """Whether each did anything; None where the product does not say."""
    if verb in BATCHED:
        sweep(database, verb)
        return [None] * len(cases)
    said: list[bool | None] = []
    for number, case in enumerate(cases):
        try:
            given = VERBS[verb](At(database, number, case), case.arguments)
        except InvariantBroken:  # rolled back
            given = None
        is_done = given is not None and given is not False
        expected = case.done.claim
        if expected is not None and is_done:
            is_done = as_mirrored(given, expected.worker) == expected
        said.append(is_done)
    return said


def as_mirrored(claim: object, worker: Worker) -> Claim:
    """A claim of the product as the mirror has it."""
    assert isinstance(claim, steps.Claim)
    same = {name: getattr(claim, name) for name in Claim._fields if hasattr(claim, name)}
    return Claim(**same | {"worker": worker, "is_stored": claim.stored_text is not None})
