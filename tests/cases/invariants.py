"""What must hold for every run when it has come to rest, whatever the case says."""

from typing import Final

from models.database import Database

INVARIANTS: Final = {
    "event numbers have a gap": """
        SELECT r.next_seq - 1 AS expected, count(e.seq) AS found FROM runs r
        LEFT JOIN events e ON e.run_id = r.id WHERE r.id = %(run_id)s
        GROUP BY r.id HAVING count(e.seq) <> r.next_seq - 1 OR max(e.seq) <> r.next_seq - 1""",
    "a model call is still open": """
        SELECT step, attempt FROM model_calls WHERE run_id = %(run_id)s AND state = 'open'""",
    "a step has two decisions": """
        SELECT step, count(*) FROM model_calls
        WHERE run_id = %(run_id)s AND decision IN ('answer', 'dispatch')
        GROUP BY step HAVING count(*) > 1""",
    "a call has no end": """
        SELECT id, tool, state FROM calls WHERE run_id = %(run_id)s
        AND state NOT IN ('returned', 'refused', 'errored', 'skipped', 'unknown',
          'awaiting_approval')""",
    "open calls are miscounted": """
        SELECT r.open_calls, count(c.id) FROM runs r
        LEFT JOIN calls c ON c.run_id = r.id
          AND c.state IN ('planned', 'awaiting_approval', 'ready', 'started')
        WHERE r.id = %(run_id)s GROUP BY r.id HAVING count(c.id) <> r.open_calls""",
    "a settled call has no result": """
        SELECT c.id, c.state FROM calls c LEFT JOIN evidence e ON e.call_id = c.id
        WHERE c.run_id = %(run_id)s AND e.call_id IS NULL
        AND c.state IN ('returned', 'refused', 'errored', 'skipped')""",
    "a change ran without a receipt": """
        SELECT c.id FROM calls c LEFT JOIN receipts x ON x.call_id = c.id
        WHERE c.run_id = %(run_id)s AND c.effect = 'mutation' AND c.attempt > 0
        AND x.call_id IS NULL""",
    "an unknown change in a run that looks finished": """
        SELECT r.id, r.status FROM runs r JOIN calls c ON c.run_id = r.id
        WHERE r.id = %(run_id)s AND c.state = 'unknown'
        AND r.status NOT IN ('paused', 'cancelled', 'failed')""",
    "the run is held by somebody": """
        SELECT holder FROM runs WHERE id = %(run_id)s AND holder IS NOT NULL""",
}
"""Each query finds the rows that break its rule."""


def broken_invariants(database: Database, run_id: str) -> list[str]:
    """One line per broken rule."""
    asked = {"run_id": run_id}
    results = database.run(*((query, asked) for query in INVARIANTS.values()))
    return [
        f"{rule}: {[dict(row) for row in rows][:3]}"
        for rule, rows in zip(INVARIANTS, results, strict=True)
        if rows
    ]
