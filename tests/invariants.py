"""What must hold in any database once nothing moves any more, whatever was killed on the way."""

from typing import Final

from models.database import Database

INVARIANTS: Final = {
    "I2b a change was started and has no intent": """
        SELECT c.id, c.state FROM calls c LEFT JOIN receipts x ON x.call_id = c.id
        WHERE c.effect = 'mutation' AND c.attempt > 0 AND x.call_id IS NULL""",
    "I2b a receipt belongs to no started change, or to other bytes": """
        SELECT x.call_id FROM receipts x LEFT JOIN calls c ON c.id = x.call_id
        WHERE c.id IS NULL OR c.effect <> 'mutation' OR c.attempt <> x.attempt
          OR c.run_id <> x.run_id OR c.args_text IS DISTINCT FROM x.args_text""",
    "I2 a change has two intents": """
        SELECT ref, count(*) FROM events WHERE kind = 'call.intent'
        GROUP BY ref HAVING count(*) > 1""",
    "I2 an intent is not what its event says": """
        SELECT x.call_id, x.intent_seq FROM receipts x
        LEFT JOIN events e ON e.run_id = x.run_id AND e.seq = x.intent_seq
        WHERE e.kind IS DISTINCT FROM 'call.intent' OR e.ref <> x.call_id""",
    "I3 an intent has neither an outcome nor an unknown": """
        SELECT x.call_id, x.outcome, c.state FROM receipts x JOIN calls c ON c.id = x.call_id
        WHERE x.outcome IS NULL OR (x.outcome = 'unknown') <> (c.state = 'unknown')
          OR (x.outcome = 'done') <> (c.state = 'returned')""",
    "I3b an unknown change in a run that looks well": """
        SELECT r.id, r.status, r.work FROM runs r JOIN calls c ON c.run_id = r.id
        WHERE c.state = 'unknown' AND r.status NOT IN ('paused', 'cancelled', 'failed')""",
    "I3b unknown changes are miscounted": """
        SELECT r.id, r.unknowns, count(c.id) FROM runs r
        LEFT JOIN calls c ON c.run_id = r.id AND c.state = 'unknown'
        GROUP BY r.id HAVING count(c.id) <> r.unknowns""",
    "I5 a decided step has no reply": """
        SELECT run_id, step, attempt FROM model_calls
        WHERE decision IS NOT NULL AND (reply IS NULL OR state <> 'closed')""",
    "I5 a step went by without a decision": """
        SELECT r.id, s.step FROM runs r, generate_series(1, r.step - 1) AS s(step)
        WHERE NOT EXISTS (SELECT 1 FROM model_calls m WHERE m.run_id = r.id AND m.step = s.step
          AND m.decision = 'dispatch')""",
    "I6 a step has two decisions": """
        SELECT run_id, step, count(*) FROM model_calls WHERE decision IN ('answer', 'dispatch')
        GROUP BY run_id, step HAVING count(*) > 1""",
    "I6 calls without the decision that made them": """
        SELECT c.run_id, c.step FROM calls c LEFT JOIN model_calls m
          ON m.run_id = c.run_id AND m.step = c.step AND m.decision = 'dispatch'
        WHERE m.run_id IS NULL""",
    "I7 a model call is left open": """
        SELECT run_id, step, attempt FROM model_calls WHERE state = 'open'""",
    "I7 usage differs from the reply": """
        SELECT run_id, step, attempt FROM model_calls WHERE reply IS NOT NULL
          AND (reply::jsonb -> 'usage' ->> 'total_tokens')::bigint IS DISTINCT FROM total_tokens""",
    "I9 a fence went back": """
        SELECT run_id, seq FROM (SELECT run_id, seq, fence,
          lag(fence) OVER (PARTITION BY run_id ORDER BY seq) AS before FROM events) e
        WHERE before > fence""",
    "I9 an event or attempt is ahead of its run's fence": """
        SELECT r.id FROM runs r WHERE r.fence < greatest(
          (SELECT max(e.fence) FROM events e WHERE e.run_id = r.id),
          (SELECT max(m.fence) FROM model_calls m WHERE m.run_id = r.id))""",
    "I10 event numbers have a gap": """
        SELECT r.id, r.next_seq, count(e.seq), min(e.seq), max(e.seq) FROM runs r
        LEFT JOIN events e ON e.run_id = r.id GROUP BY r.id
        HAVING count(e.seq) <> r.next_seq - 1 OR min(e.seq) <> 1 OR max(e.seq) <> r.next_seq - 1""",
    "I11 the run went on before every call had ended": """
        SELECT c.run_id, c.step, c.state FROM calls c JOIN runs r ON r.id = c.run_id
        WHERE c.step < r.step AND c.settled_at IS NULL""",
    "I11 a call belongs to a step to come": """
        SELECT c.id FROM calls c JOIN runs r ON r.id = c.run_id WHERE c.step > r.step""",
    "I11 open calls are miscounted": """
        SELECT r.id, r.open_calls, count(c.id) FROM runs r
        LEFT JOIN calls c ON c.run_id = r.id
          AND c.state IN ('planned', 'awaiting_approval', 'ready', 'started')
        GROUP BY r.id HAVING count(c.id) <> r.open_calls""",
    "I11 a call is open in a run that nobody moves": """
        SELECT c.id, c.state, r.status FROM calls c JOIN runs r ON r.id = c.run_id
        WHERE c.settled_at IS NULL AND r.work = 'none' AND r.status <> 'waiting'""",
    "I11 positions of a step have a gap": """
        SELECT run_id, step FROM calls GROUP BY run_id, step
        HAVING min(position) <> 1 OR max(position) <> count(*)""",
    "I13 a completed run has not exactly one delivery of its answer": """
        SELECT r.id, count(d.id) FROM runs r LEFT JOIN deliveries d ON d.run_id = r.id
          AND d.destination = 'inbox' AND d.body = r.answer AND d.tenant = r.tenant
        WHERE r.status = 'completed' GROUP BY r.id HAVING count(d.id) <> 1""",
    "I13 a run that is not completed has an answer": """
        SELECT r.id FROM runs r LEFT JOIN deliveries d ON d.run_id = r.id
        WHERE r.status <> 'completed' AND (d.id IS NOT NULL OR r.answer IS NOT NULL)""",
    "I16 a row belongs to another tenant than its run": """
        SELECT 'calls' AS place, c.id FROM calls c JOIN runs r ON r.id = c.run_id
          WHERE c.tenant <> r.tenant
        UNION ALL SELECT 'model_calls', m.run_id FROM model_calls m JOIN runs r ON r.id = m.run_id
          WHERE m.tenant <> r.tenant
        UNION ALL SELECT 'evidence', e.call_id FROM evidence e JOIN runs r ON r.id = e.run_id
          WHERE e.tenant <> r.tenant OR e.thread_id <> r.thread_id
        UNION ALL SELECT 'receipts', x.call_id FROM receipts x JOIN runs r ON r.id = x.run_id
          WHERE x.tenant <> r.tenant""",
    "a call that ended has no evidence, or an open one has": """
        SELECT c.id, c.state, e.call_id FROM calls c LEFT JOIN evidence e ON e.call_id = c.id
        WHERE (c.state IN ('returned', 'refused', 'errored', 'skipped')) <> (e.call_id IS NOT NULL)
        """,
    "two runs of a thread are active": """
        SELECT thread_id, count(*) FROM runs WHERE status IN ('running', 'waiting', 'cancelling')
        GROUP BY thread_id HAVING count(*) > 1""",
    "a run is held by somebody": """
        SELECT id, holder FROM runs WHERE work = 'held'""",
}
"""Each query finds the rows that break its rule (I numbers as in the design's list)."""


def violations(database: Database) -> list[str]:
    """One line per broken rule, over every run of the database; empty when all is well."""
    results = database.run(*((sql, {}) for sql in INVARIANTS.values()))
    return [
        f"{rule}: {[dict(row) for row in rows[:3]]}"
        for rule, rows in zip(INVARIANTS, results, strict=True)
        if rows
    ]
