"""What a run did last: its calls, for whoever judges repetition, and the parts of a cut answer."""

from itertools import takewhile
from typing import Final

from loop.repetition import COMPARED_CHARS, HASH_MARK, PastCall, fingerprint
from loop.response import ModelTurn, Text, response_of
from models.database import Database
from models.schema import parse_stored
from models.steps import Claim

_MOST_CALLS: Final = 400
"""A step may ask for hundreds; what repeats shows in fewer."""

# Only what was decided since the last correction was heard, and on the sources as they are. Calls
# that were not understood or were refused as repetitions have brought the model no result. One that
# nobody decided about in time has failed: it may be asked for again, and not for ever.
_RECENT: Final = f"""
SELECT c.step, c.tool, c.effect, encode(e.sha256, 'hex') AS result,
  CASE c.state WHEN 'skipped' THEN 'errored' ELSE c.state END AS ended,
  CASE WHEN length(c.args_text) <= {COMPARED_CHARS} THEN c.args_text
    ELSE '{HASH_MARK}' || encode(c.args_sha, 'hex') END AS arguments
FROM model_calls m
JOIN calls c ON c.run_id = m.run_id AND c.step = m.step AND c.refreshes IS NULL
JOIN evidence e ON e.call_id = c.id
WHERE m.run_id = %(run_id)s AND m.step >= %(from_step)s AND m.step < %(step)s
  AND m.decision = 'dispatch' AND m.steers = %(steers)s AND c.source_rev = %(source_rev)s
  AND c.args_text IS NOT NULL
  AND (c.state = 'refused' OR (c.state IN ('returned', 'errored') AND c.attempt > 0)
    OR (c.state = 'skipped' AND EXISTS (
      SELECT 1 FROM approvals a WHERE a.call_id = c.id AND a.word = 'expired')))
ORDER BY c.step DESC, c.position DESC LIMIT {_MOST_CALLS}
"""  # noqa: S608 - constant text, no input


def load_recent_calls(database: Database, claim: Claim, steps: int) -> list[PastCall]:
    """What the calls of the last `steps` steps brought, oldest first; one read of constant size."""
    if steps <= 0 or claim.calls_used == 0:
        return []
    parameters = {
        "run_id": claim.run_id,
        "step": claim.step,
        "from_step": claim.step - steps,
        "steers": claim.steers,
        "source_rev": claim.source_rev,
    }
    [rows] = database.run((_RECENT, parameters))
    return [
        PastCall(
            step=row["step"],
            fingerprint=fingerprint(row["tool"], row["arguments"]),
            result=row["result"],
            ended=row["ended"],
            is_change=row["effect"] != "read",
        )
        for row in reversed(rows)
    ]


_LATEST_REPLIES: Final = """
SELECT step, reply FROM model_calls
WHERE run_id = %(run_id)s AND step >= %(from_step)s AND step < %(step)s
  AND decision = 'dispatch' AND steers = %(steers)s ORDER BY step DESC
"""


def load_cut_texts(database: Database, claim: Claim, most: int) -> tuple[str, ...]:
    """The parts of an answer that the steps right before said, in order; at most so many.

    Raises:
        InvariantBroken: a stored reply does not parse.
    """
    if claim.step == 1 or most == 0:
        return ()
    parameters = {
        "run_id": claim.run_id,
        "step": claim.step,
        "from_step": claim.step - most,
        "steers": claim.steers,
    }
    [rows] = database.run((_LATEST_REPLIES, parameters))
    replies = (response_of(parse_stored(ModelTurn, row["reply"])) for row in rows)
    cut = takewhile(lambda reply: isinstance(reply, Text) and reply.is_cut, replies)
    return tuple(reply.text for reply in cut if isinstance(reply, Text))[::-1]
