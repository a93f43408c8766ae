"""The mirror is the product: every verb on every kind of record that a search has reached."""

from collections.abc import Iterator

import pytest

from models import steps
from models.database import Database
from tests.state.cases import BATCHED, Case
from tests.state.product import VERBS, At, Uncommitted, sweep
from tests.state.record import Claim, Worker
from tests.state.scenarios import SCENARIOS
from tests.state.searched import OF_EACH_KIND, searched
from tests.state.stored import stored_in
from tests.state.tables import Tables, run_id
from tests.worker_processes import wait_until

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
def tables(database_url: str) -> Iterator[Tables]:
    """A transaction that nobody commits."""
    tables = Tables(database_url)
    wait_until(lambda: is_past_grace(tables), 10, "PostgreSQL is up long enough")
    yield tables
    tables.close()


def is_past_grace(tables: Tables) -> bool:
    tables.clear()
    return bool(tables.run(_PAST_GRACE))


@pytest.mark.parametrize("verb", [*VERBS, *BATCHED])
def test_the_product_does_what_the_mirror_does(
    verb: str, cases: list[Case], tables: Tables, database_url: str
) -> None:
    mine = [case for case in cases if case.verb == verb]
    assert {case.done.is_done for case in mine} == {True, False}, "the search never got there"
    tables.clear()
    tables.put([(case.rows, case.dead, case.policy) for case in mine])
    database = Uncommitted(database_url, tables)
    said = run_all(database, verb, mine)
    database.close()
    stored = stored_in(tables)
    for number, case in enumerate(mine):
        now = stored[run_id(number)]
        assert now.oddities == (), str(case)
        assert now.rows == case.done.rows, str(case)
        assert (now.events, now.numbers) == (case.done.events, case.done.numbers), str(case)
        assert said[number] is None or said[number] == case.done.is_done, str(case)


def run_all(database: Database, verb: str, cases: list[Case]) -> list[bool | None]:
    """Whether each did anything; None where the product does not say."""
    if verb in BATCHED:
        sweep(database, verb)
        return [None] * len(cases)
    said: list[bool | None] = []
    for number, case in enumerate(cases):
        given = VERBS[verb](At(database, number, case), case.arguments)
        if case.done.claim is not None:
            assert as_mirrored(given, case.done.claim.worker) == case.done.claim, str(case)
        said.append(given is not None and given is not False)
    return said


def as_mirrored(claim: object, worker: Worker) -> Claim:
    """A claim of the product as the mirror has it."""
    assert isinstance(claim, steps.Claim)
    same = {name: getattr(claim, name) for name in Claim._fields if hasattr(claim, name)}
    return Claim(**same | {"worker": worker, "is_stored": claim.stored_text is not None})
