"""What must hold in the record, whatever was killed on the way: one query per rule.

`umbel doctor --invariants` asks them of a living system, the tests of one that has come to rest.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Invariant:
    """A rule and the query that finds the rows which break it; the first column is an id."""

    name: str
    """For programs: stable."""
    broken: str
    """What is so where the query finds a row."""
    means: str
    """What follows from it."""
    sql: str
    only_at_rest: bool = False
    """While a run is being worked on, such rows are normal."""


INVARIANTS: Final = (
    Invariant(
        "change_without_intent",
        "a change was started and has no intent",
        "a change was sent that nobody can prove: it may be sent twice",
        """
        SELECT c.id, c.state FROM calls c LEFT JOIN receipts x ON x.call_id = c.id
        WHERE c.effect = 'mutation' AND c.attempt > 0 AND x.call_id IS NULL""",
    ),
    Invariant(
        "receipt_of_other_bytes",
        "a receipt belongs to no started change, or to other bytes",
        "what was approved or shown is not what was sent",
        """
        SELECT x.call_id FROM receipts x LEFT JOIN calls c ON c.id = x.call_id
        WHERE c.id IS NULL OR c.effect <> 'mutation' OR c.attempt <> x.attempt
          OR c.run_id <> x.run_id OR c.args_text IS DISTINCT FROM x.args_text""",
    ),
    Invariant(
        "second_intent",
        "a change has two intents",
        "the same change may have been sent twice",
        """
        SELECT ref, count(*) FROM events WHERE kind = 'call.intent'
        GROUP BY ref HAVING count(*) > 1""",
    ),
    Invariant(
        "intent_without_event",
        "an intent is not what its event says",
        "the history does not tell of a change that was sent",
        """
        SELECT x.call_id, x.intent_seq FROM receipts x
        LEFT JOIN events e ON e.run_id = x.run_id AND e.seq = x.intent_seq
        WHERE e.kind IS DISTINCT FROM 'call.intent' OR e.ref <> x.call_id""",
    ),
    Invariant(
        "open_intent",
        "an intent has neither an outcome nor an unknown",
        "a change was sent, and the record does not say what became of it",
        """
        SELECT x.call_id, x.outcome, c.state FROM receipts x JOIN calls c ON c.id = x.call_id
        WHERE x.outcome IS NULL
          OR (x.outcome = 'unknown' AND x.verified IS NULL) <> (c.state = 'unknown')
          OR (x.outcome = 'done' OR coalesce(x.verified IN ('happened', 'partial'), false))
            <> (c.state = 'returned')""",
        only_at_rest=True,
    ),
    Invariant(
        "unhalted_unknown",
        "an unknown change in a run that looks well",
        "a run went on although nobody knows whether its change happened",
        """
        SELECT r.id, r.status, r.work FROM runs r JOIN calls c ON c.run_id = r.id
        WHERE c.state = 'unknown' AND r.status NOT IN ('paused', 'cancelled', 'failed')""",
        only_at_rest=True,
    ),
    Invariant(
        "miscounted_unknowns",
        "unknown changes are miscounted",
        "the run may go on too early, or never",
        """
        SELECT r.id, r.unknowns, count(c.id) FROM runs r
        LEFT JOIN calls c ON c.run_id = r.id AND c.state = 'unknown'
        GROUP BY r.id HAVING count(c.id) <> r.unknowns""",
    ),
    Invariant(
        "decision_without_reply",
        "a decided step has no reply",
        "a decision cannot be traced to what the model said",
        """
        SELECT run_id, step, attempt FROM model_calls
        WHERE decision IS NOT NULL AND (reply IS NULL OR state <> 'closed')""",
    ),
    Invariant(
        "skipped_step",
        "a step went by without a decision",
        "the transcript has a hole",
        """
        SELECT r.id, s.step FROM runs r, generate_series(1, r.step - 1) AS s(step)
        WHERE NOT EXISTS (SELECT 1 FROM model_calls m WHERE m.run_id = r.id AND m.step = s.step
          AND m.decision = 'dispatch')""",
    ),
    Invariant(
        "second_decision",
        "a step has two decisions",
        "two workers decided the same step",
        """
        SELECT run_id, step, count(*) FROM model_calls WHERE decision IN ('answer', 'dispatch')
        GROUP BY run_id, step HAVING count(*) > 1""",
    ),
    Invariant(
        "undecided_calls",
        "calls without the decision that made them",
        "calls exist that no model reply asked for",
        """
        SELECT c.run_id, c.step FROM calls c LEFT JOIN model_calls m
          ON m.run_id = c.run_id AND m.step = c.step AND m.decision = 'dispatch'
        WHERE m.run_id IS NULL AND c.refreshes IS NULL""",
    ),
    Invariant(
        "open_model_call",
        "a model call is left open",
        "an attempt was paid for and never accounted",
        """
        SELECT run_id, step, attempt FROM model_calls WHERE state = 'open'""",
        only_at_rest=True,
    ),
    Invariant(
        "summary_out_of_line",
        "a summary does not follow the one before it, or no model call wrote it",
        "steps are told twice in requests, or by nobody",
        """
        SELECT s.id, s.run_id, s.number FROM summaries s
        LEFT JOIN summaries p ON p.run_id = s.run_id AND p.number = s.number - 1
        LEFT JOIN model_calls m ON m.run_id = s.run_id AND m.step = s.step
          AND m.attempt = s.attempt AND m.purpose = 'compact' AND m.reply IS NOT NULL
        WHERE (s.number > 1 AND p.id IS DISTINCT FROM s.previous)
          OR (p.first_kept_run = s.first_kept_run AND p.first_kept_step >= s.first_kept_step)
          OR (s.attempt IS NOT NULL AND m.run_id IS NULL)""",
    ),
    Invariant(
        "differing_usage",
        "usage differs from the reply",
        "spending is not what the endpoint reported",
        """
        SELECT run_id, step, attempt FROM model_calls WHERE reply IS NOT NULL
          AND (reply::jsonb -> 'usage' ->> 'total_tokens')::bigint IS DISTINCT FROM total_tokens""",
    ),
    Invariant(
        "fence_went_back",
        "a fence went back",
        "a worker that had lost its run wrote to it",
        """
        SELECT run_id, seq FROM (SELECT run_id, seq, fence,
          lag(fence) OVER (PARTITION BY run_id ORDER BY seq) AS before FROM events) e
        WHERE before > fence""",
    ),
    Invariant(
        "fence_overtaken",
        "an event or attempt is ahead of its run's fence",
        "a worker wrote that never held the run",
        """
        SELECT r.id FROM runs r WHERE r.fence < greatest(
          (SELECT max(e.fence) FROM events e WHERE e.run_id = r.id),
          (SELECT max(m.fence) FROM model_calls m WHERE m.run_id = r.id))""",
    ),
    Invariant(
        "event_gap",
        "event numbers have a gap",
        "whoever follows the run misses an event or waits for one",
        """
        SELECT r.id, r.next_seq, count(e.seq), min(e.seq), max(e.seq) FROM runs r
        LEFT JOIN events e ON e.run_id = r.id GROUP BY r.id
        HAVING count(e.seq) <> r.next_seq - 1 OR min(e.seq) <> 1 OR max(e.seq) <> r.next_seq - 1""",
    ),
    Invariant(
        "early_step",
        "the run went on before every call had ended",
        "the model was asked before all results were there",
        """
        SELECT c.run_id, c.step, c.state FROM calls c JOIN runs r ON r.id = c.run_id
        WHERE c.step < r.step AND c.settled_at IS NULL""",
    ),
    Invariant(
        "call_from_the_future",
        "a call belongs to a step to come",
        "a call exists that nobody can have asked for yet",
        """
        SELECT c.id FROM calls c JOIN runs r ON r.id = c.run_id WHERE c.step > r.step""",
    ),
    Invariant(
        "miscounted_calls",
        "open calls are miscounted",
        "the run goes on too early, or never",
        """
        SELECT r.id, r.open_calls, count(c.id) FROM runs r
        LEFT JOIN calls c ON c.run_id = r.id
          AND c.state IN ('planned', 'awaiting_approval', 'ready', 'started')
        GROUP BY r.id HAVING count(c.id) <> r.open_calls""",
    ),
    Invariant(
        "miscounted_approvals",
        "calls that wait for their owner are miscounted",
        "the run waits for nobody, or goes on beside a question",
        """
        SELECT r.id, r.open_approvals, count(c.id) FROM runs r
        LEFT JOIN calls c ON c.run_id = r.id AND c.state = 'awaiting_approval'
        GROUP BY r.id HAVING count(c.id) <> r.open_approvals""",
    ),
    Invariant(
        "approved_by_nobody",
        "a call has an approval that its run's owner never gave",
        "a change was or will be sent that nobody may have approved",
        """
        SELECT c.id FROM calls c JOIN runs r ON r.id = c.run_id
        WHERE c.approved_sha IS NOT NULL AND NOT EXISTS (SELECT 1 FROM approvals a
          WHERE a.call_id = c.id AND a.word = 'granted' AND a.args_sha = c.approved_sha
            AND a.said_by = r.owner AND a.tenant = r.tenant)""",
    ),
    Invariant(
        "forgotten_call",
        "a call is open in a run that nobody moves",
        "nobody will ever settle the call",
        """
        SELECT c.id, c.state, r.status FROM calls c JOIN runs r ON r.id = c.run_id
        WHERE c.settled_at IS NULL AND r.work = 'none' AND r.status <> 'waiting'""",
        only_at_rest=True,
    ),
    Invariant(
        "position_gap",
        "positions of a step have a gap",
        "a call of the model's reply is missing",
        """
        SELECT run_id, step FROM calls WHERE refreshes IS NULL GROUP BY run_id, step
        HAVING min(position) <> 1 OR max(position) <> count(*)""",
    ),
    Invariant(
        "refreshed_change",
        "a refresh of a change has been started",
        "a change may have been made twice in the name of reading it again",
        """
        SELECT f.id FROM calls f JOIN calls c ON c.id = f.refreshes
        WHERE c.effect = 'mutation' AND f.attempt > 0""",
    ),
    Invariant(
        "delivery_count",
        "a completed run has not exactly one delivery of its answer",
        "the owner got no answer, another one, or several",
        """
        SELECT r.id, count(d.id) FROM runs r LEFT JOIN deliveries d ON d.run_id = r.id
          AND d.destination = 'inbox' AND d.body = r.answer AND d.tenant = r.tenant
        WHERE r.status = 'completed' GROUP BY r.id HAVING count(d.id) <> 1""",
    ),
    Invariant(
        "early_answer",
        "a run that is not completed has an answer",
        "the owner was told the end of a run that has not ended",
        """
        SELECT r.id FROM runs r LEFT JOIN deliveries d ON d.run_id = r.id
        WHERE r.status <> 'completed' AND (d.id IS NOT NULL OR r.answer IS NOT NULL)""",
    ),
    Invariant(
        "foreign_row",
        "a row belongs to another tenant than its run",
        "one tenant may see what belongs to another",
        """
        SELECT c.id, 'calls' AS place FROM calls c JOIN runs r ON r.id = c.run_id
          WHERE c.tenant <> r.tenant
        UNION ALL SELECT m.run_id, 'model_calls' FROM model_calls m JOIN runs r ON r.id = m.run_id
          WHERE m.tenant <> r.tenant
        UNION ALL SELECT e.call_id, 'evidence' FROM evidence e JOIN runs r ON r.id = e.run_id
          WHERE e.tenant <> r.tenant OR e.thread_id <> r.thread_id
        UNION ALL SELECT s.id, 'summaries' FROM summaries s JOIN runs r ON r.id = s.run_id
          WHERE s.tenant <> r.tenant OR s.thread_id <> r.thread_id
        UNION ALL SELECT x.call_id, 'receipts' FROM receipts x JOIN runs r ON r.id = x.run_id
          WHERE x.tenant <> r.tenant""",
    ),
    Invariant(
        "evidence_mismatch",
        "a call that ended has no evidence, or an open one has",
        "the model is shown no result, or one of a call that still runs",
        """
        SELECT c.id, c.state, e.call_id FROM calls c LEFT JOIN evidence e ON e.call_id = c.id
        WHERE (e.call_id IS NOT NULL)
          <> (c.state IN ('returned', 'refused', 'errored', 'skipped'))""",
    ),
    Invariant(
        "capture_mismatch",
        "evidence names what was not kept for it, or something is kept that none names",
        "a part of a result is missing, or what nobody can see is never removed",
        """
        SELECT coalesce(e.call_id, k.call_id), k.id FROM captures k
        FULL JOIN evidence e ON e.capture_id = k.id AND e.call_id = k.call_id
        WHERE (e.capture_id IS NOT NULL OR k.is_kept)
          AND (k.id IS NULL OR e.call_id IS NULL OR NOT k.is_kept OR k.tenant <> e.tenant)""",
    ),
    Invariant(
        "two_active_runs",
        "two runs of a thread are active",
        "two runs write to one thread at once",
        """
        SELECT thread_id, count(*) FROM runs WHERE status IN ('running', 'waiting', 'cancelling')
        GROUP BY thread_id HAVING count(*) > 1""",
    ),
    Invariant(
        "held_run",
        "a run is held by somebody",
        "a worker still has the run although nothing should move",
        """
        SELECT id, holder FROM runs WHERE work = 'held'""",
        only_at_rest=True,
    ),
    Invariant(
        "steer_not_counted",
        "a correction is not counted in its run",
        "a correction that was accepted may never be heard",
        """
        SELECT r.id, r.steers FROM runs r
        LEFT JOIN steers s ON s.run_id = r.id
        GROUP BY r.id HAVING count(s.id) <> r.steers OR coalesce(max(s.rev), 0) <> r.steers""",
    ),
    Invariant(
        "steer_lost",
        "a run is over, and a correction was neither heard nor returned",
        "somebody was told that their correction counts, and it did not",
        """
        SELECT s.id, s.run_id FROM steers s JOIN runs r ON r.id = s.run_id
        WHERE s.state = 'accepted' AND r.status IN ('completed', 'cancelled')""",
    ),
    # A read takes no lock of its run, and may start until the stop has committed; a statement is
    # ended after five seconds.
    Invariant(
        "started_after_stop",
        "a call started after its run was stopped",
        "a stop was confirmed, and something was done all the same",
        """
        SELECT c.id, c.run_id FROM calls c JOIN runs r ON r.id = c.run_id
        WHERE c.started_at > r.stop_at + interval '5 seconds' * (c.effect = 'read')::int""",
    ),
)
