"""Runs as the commands show them, brought about by the product's own verbs."""

from dataclasses import replace

from loop.decision import Answer
from loop.outcome import Returned, Unknown
from models.calls import settle
from models.database import Database
from models.steps import commit_answer
from tests.factories import RunWish, a_run
from tests.models.story import (
    CHANGE,
    READ,
    a_reply,
    an_exchange,
    claimed,
    dispatched,
    started,
)
from umbel.contracts import RunId


def a_completed_run(database: Database, request: str = "What is in the folder?") -> RunId:
    """One step with two reads, then an answer."""
    run_id = a_run(database, RunWish(input=request)).run_id
    step = dispatched(database, READ, READ, claim=claimed(database, run_id))
    for call_id in step.calls:
        settle(database, started(database, call_id), Returned('{"files":3}'), '{"files":3}')
    claim = claimed(database, run_id, step=2)
    commit_answer(database, claim, an_exchange(a_reply("Three files.")), Answer("Three files."))
    return run_id


def a_run_with_an_unknown_change(database: Database) -> RunId:
    """A change whose worker cannot say whether it happened; the run is paused."""
    pay = replace(CHANGE, tool="pay", args_text='{"cents":900719925474099312,"to":"ann"}')
    step = dispatched(database, pay)
    settle(database, started(database, step.calls[0]), Unknown("The connection broke."), "")
    return step.run_id
