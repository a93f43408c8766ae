"""What a follow-up run knows: the runs of its thread before it, as they were when it began.

What happens to them later (an outcome is found out, a paused one goes on) is not in its requests:
each of them can be built again, and begins as the one before it did.
"""

from itertools import groupby
from operator import itemgetter
from typing import Final

from loop.transcript import NOT_KNOWN, RecordedRun
from models.database import Row
from models.recorded import PICTURES, Corrections, recorded_steps

_BEGAN: Final = """
WITH b AS (
  SELECT opened_at FROM model_calls WHERE run_id = %(run_id)s AND step = 1 AND attempt = 1)
"""
_THEIRS: Final = "e.thread_id = %(thread_id)s AND e.run_id <> %(run_id)s"

REQUESTS: Final = f"""
{_BEGAN}
SELECT e.run_id, e.text FROM b, entries e
JOIN model_calls f ON f.run_id = e.run_id AND f.step = 1 AND f.attempt = 1
WHERE {_THEIRS} AND e.kind = 'request' AND f.opened_at < b.opened_at
ORDER BY f.opened_at, e.run_id, e.id
"""  # noqa: S608 - constant text, no input
REPLIES: Final = f"""
{_BEGAN}
SELECT m.run_id, m.step, m.endpoint, m.reply, m.steers FROM b, entries e
JOIN model_calls m ON m.run_id = e.run_id AND m.decision IN ('dispatch', 'answer')
JOIN events d ON d.run_id = e.run_id AND d.kind = 'step.decided' AND d.ref = m.step::text
WHERE {_THEIRS} AND e.kind = 'request' AND d.at < b.opened_at
ORDER BY m.run_id, m.step
"""  # noqa: S608 - constant text, no input
RESULTS: Final = f"""
{_BEGAN}
SELECT c.run_id, c.id, c.step, c.tool, c.args_text,
  coalesce(CASE WHEN v.stored_at < b.opened_at THEN v.view END, '{NOT_KNOWN}') AS view,
  {PICTURES.format(condition="%(takes_pictures)s AND v.stored_at < b.opened_at", evidence="v")}
FROM b, entries e JOIN calls c ON c.run_id = e.run_id AND c.refreshes IS NULL
LEFT JOIN evidence v ON v.call_id = c.id
WHERE {_THEIRS} AND e.kind = 'request'
ORDER BY c.run_id, c.step, c.position
"""  # noqa: S608 - constant text, no input
STEERS: Final = f"""
SELECT s.run_id, s.rev, s.text FROM entries e JOIN steers s ON s.run_id = e.run_id
WHERE {_THEIRS} AND e.kind = 'request' AND s.state <> 'returned'
ORDER BY s.run_id, s.rev
"""  # noqa: S608 - constant text, no input


def earlier_runs(
    requests: list[Row], replies: list[Row], results: list[Row], steers: list[Row]
) -> tuple[RecordedRun, ...]:
    """The rows of the statements above, by run, in the order in which the runs began."""
    replies_of, results_of, steers_of = _by_run(replies), _by_run(results), _by_run(steers)
    return tuple(
        RecordedRun(
            run_id=run_id,
            requests=tuple(row["text"] for row in own),
            steps=recorded_steps(
                replies_of.get(run_id, []),
                results_of.get(run_id, []),
                Corrections(steers_of.get(run_id, [])),
            ),
        )
        for run_id, own in _by_run(requests).items()
    )


def _by_run(rows: list[Row]) -> dict[str, list[Row]]:
    return {run_id: list(own) for run_id, own in groupby(rows, itemgetter("run_id"))}
