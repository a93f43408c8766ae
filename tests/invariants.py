"""What must hold in any database once nothing moves any more, whatever was killed on the way."""

from models.database import Database
from models.evidence_check import check_results
from models.invariants import INVARIANTS


def violations(database: Database, *, at_rest: bool = True) -> list[str]:
    """One line per broken rule, over every run of the database; empty when all is well.

    While runs are being worked on (not `at_rest`) only the rules that hold at every moment count.
    """
    rules = [x for x in INVARIANTS if at_rest or not x.only_at_rest]
    results = database.run(*((invariant.sql, {}) for invariant in rules))
    found = [
        f"{invariant.broken}: {[dict(row) for row in rows[:3]]}"
        for invariant, rows in zip(rules, results, strict=True)
        if rows
    ]
    with database.begin() as connection:
        altered = check_results(connection)
    if altered.rows is not None and altered.rows.count:
        found.append(f"{altered.invariant.broken}: {altered.rows.first}")
    return found
