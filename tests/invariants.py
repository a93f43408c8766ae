"""What must hold in any database once nothing moves any more, whatever was killed on the way."""

from models.database import Database
from models.invariants import INVARIANTS


def violations(database: Database) -> list[str]:
    """One line per broken rule, over every run of the database; empty when all is well."""
    results = database.run(*((invariant.sql, {}) for invariant in INVARIANTS))
    return [
        f"{invariant.broken}: {[dict(row) for row in rows[:3]]}"
        for invariant, rows in zip(INVARIANTS, results, strict=True)
        if rows
    ]
