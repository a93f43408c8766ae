"""What came of a run, without when, where and how often it was tried."""

from collections.abc import Sequence
from typing import Any, Final

from models.database import Database
from umbel.contracts import RunId

_PARTS: Final = (
    "SELECT status, reason, step, answer FROM runs WHERE id = %(run_id)s",
    """SELECT step, decision FROM model_calls
       WHERE run_id = %(run_id)s AND decision IN ('answer', 'dispatch') ORDER BY step""",
    """SELECT c.step, c.position, c.tool, c.args_text, c.state, e.body, x.outcome, x.verified
       FROM calls c LEFT JOIN evidence e ON e.call_id = c.id
       LEFT JOIN receipts x ON x.call_id = c.id
       WHERE c.run_id = %(run_id)s ORDER BY c.step, c.position""",
    "SELECT rev, mode, text, state FROM steers WHERE run_id = %(run_id)s ORDER BY rev",
    """SELECT destination, state, body FROM deliveries
       WHERE run_id = %(run_id)s ORDER BY destination""",
)

LogicalResult = tuple[tuple[tuple[Any, ...], ...], ...]


def logical_result(database: Database, run_id: RunId) -> LogicalResult:
    """Status, decisions, calls with their results, corrections and deliveries; comparable."""
    parts = database.run(*((sql, {"run_id": run_id}) for sql in _PARTS))
    return tuple(tuple(tuple(row.values()) for row in rows) for rows in parts)


def logical_results(database: Database, run_ids: Sequence[RunId]) -> list[LogicalResult]:
    """Of several runs, in their order."""
    return [logical_result(database, run_id) for run_id in run_ids]
