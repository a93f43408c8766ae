"""A start whose answer was lost: the row says whether it happened."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from loop.outcome import Returned
from models.calls import (
    find_own_start,
    load_call,
)
from models.database import Database
from models.hot import LOCK_RUN
from models.steps import PreparedCall
from tests.models.story import (
    CHANGE,
    ME,
    OTHER,
    READ,
    dispatched,
    started,
)
from tests.models.two_sessions import holding
from tests.worker_processes import wait_until

DONE = Returned('{"ok":true}')


def test_an_own_start_whose_answer_was_lost_is_found(database: Database) -> None:
    step = dispatched(database, READ)
    proof = started(database, step.calls[0])
    found = find_own_start(database, proof.call, ME)
    assert found == proof
    assert find_own_start(database, proof.call, OTHER) is None


def test_a_start_that_never_happened_is_not_found(database: Database) -> None:
    call = load_call(database, dispatched(database, READ).calls[0])
    assert call is not None
    assert find_own_start(database, call, ME) is None


@pytest.mark.parametrize(
    ("kind", "lock"),
    [(READ, "call"), (CHANGE, "call"), (CHANGE, "run")],
    ids=["read-call", "change-call", "change-run"],
)
def test_a_start_that_commits_while_it_is_looked_for_is_found(
    database: Database, url: str, kind: PreparedCall, lock: str
) -> None:
    """Else a call would be started by a worker that lives and does nothing about it."""
    step = dispatched(database, kind)
    call_id = step.calls[0]
    statement = (
        (LOCK_RUN, {"run_id": step.run_id})
        if lock == "run"
        else ("SELECT id FROM calls WHERE id = %(id)s FOR UPDATE", {"id": call_id})
    )
    call = load_call(database, call_id)
    assert call is not None
    with holding(url) as blocker, ThreadPoolExecutor(2) as pool:
        blocker.run(statement)
        late = pool.submit(started, database, call_id)
        wait_until(lambda: blocker.blocks() or late.done(), 5, "the start waits")
        look = pool.submit(find_own_start, database, call, ME)
        wait_until(lambda: blocker.is_waited_at(2) or look.done(), 5, "the look waits as well")
        blocker.commit()
        assert look.result(5) == late.result(5)
