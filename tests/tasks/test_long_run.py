"""A step of a long run costs what one of a short run costs: counted, not timed.

`python benchmarks/long_run.py` measures the times as well.
"""

from collections.abc import Callable
from statistics import mean

from models.database import Database
from tests.invariants import violations
from tests.models.story import query
from tests.tasks.long_run import StepCost, carry_long_run

STEPS = 400
BLOCK = 80


def blocks(costs: list[StepCost], of: Callable[[StepCost], float]) -> list[float]:
    """Means of equal stretches, the first ten steps left out: they fill the window."""
    late = costs[10:]
    return [mean(map(of, late[at : at + BLOCK])) for at in range(0, len(late) - BLOCK + 1, BLOCK)]


def test_a_step_sends_and_reads_the_same_however_long_the_run_is(
    url: str, database: Database
) -> None:
    costs = list(carry_long_run(url, STEPS))
    for of in (
        lambda cost: float(cost.sent_bytes),
        lambda cost: float(cost.read_bytes),
        lambda cost: float(cost.read_rows),
    ):
        means = blocks(costs, of)
        assert len(means) == 4
        assert max(means) <= 1.2 * mean(means)
        assert min(means) >= 0.8 * mean(means)
    assert max(cost.sent_bytes for cost in costs) <= 8_000 * 4
    [made] = query(database, "SELECT count(*)::int AS n, max(number) AS last FROM summaries")
    assert made["n"] == made["last"] == sum(cost.summaries for cost in costs)
    assert made["n"] >= 3
    assert violations(database) == []


def test_the_summaries_of_a_long_run_follow_one_another_without_gap_or_overlap(
    url: str, database: Database
) -> None:
    list(carry_long_run(url, 200))
    rows = query(database, "SELECT * FROM summaries ORDER BY number")
    assert [row["previous"] for row in rows] == [None, *(row["id"] for row in rows[:-1])]
    borders = [row["first_kept_step"] for row in rows]
    assert borders == sorted(set(borders))
    assert all(border <= row["step"] for border, row in zip(borders, rows, strict=True))
    assert {row["kind"] for row in rows} == {"summary"}
    assert {len(row["source_sha"]) for row in rows} == {32}
