"""What a run has sent last: where its next request starts from."""

from dataclasses import dataclass
from typing import Final

from loop.response import Mistake
from loop.shape import Place, Shape
from loop.transcript import MISTAKES, RequestManifest
from models.database import Database, Row
from models.schema import parse_stored
from umbel.contracts import RunId, ThreadId

# After CLAIM, in its transaction: only a statement of its own sees what was committed while the
# claim waited for the run's lock.
LAST_SENT: Final = """
SELECT b.step, b.manifest, b.error_class, b.request_sha, s.id AS summary, s.number,
  s.first_kept_run, s.first_kept_step,
  (SELECT count(*) FROM model_calls m WHERE m.run_id = %(run_id)s AND m.step = %(step)s
    AND m.purpose = 'main' AND m.error_class = 'context_length')::int AS size_refusals
FROM (VALUES (1)) AS one
LEFT JOIN LATERAL (
  SELECT m.step, m.manifest, m.error_class, m.request_sha FROM model_calls m
  WHERE m.run_id = %(run_id)s AND m.purpose = 'main' AND m.manifest IS NOT NULL
  ORDER BY m.step DESC, m.attempt DESC LIMIT 1) b ON true
LEFT JOIN LATERAL (
  SELECT s.id, s.number, s.first_kept_run, s.first_kept_step FROM summaries s
  WHERE s.run_id = %(run_id)s ORDER BY s.number DESC LIMIT 1) s ON true
"""


@dataclass(frozen=True, slots=True)
class LastSent:
    """The run's latest request whose reply is recorded, and its latest summary."""

    step: int = 0
    """0: none."""
    manifest_text: str | None = None
    error_class: str | None = None
    request_sha: bytes | None = None
    size_refusals: int = 0
    """Requests of the step at hand that the endpoint refused for their size."""
    summary: str | None = None
    summaries: int = 0
    first_kept: Place | None = None
    """Where the latest summary ends."""

    @property
    def manifest(self) -> RequestManifest | None:
        """What the request was built from.

        Raises:
            InvariantBroken: it does not parse.
        """
        if self.manifest_text is None:
            return None
        return parse_stored(RequestManifest, self.manifest_text)

    def is_refusal_at(self, step: int) -> bool:
        """Whether it was a request of this step, refused for its size."""
        return self.step == step and self.error_class == "context_length"

    def mistake_at(self, step: int) -> Mistake | None:
        """What was wrong with the last reply to this step that its endpoint brought whole.

        Raises:
            InvariantBroken: the manifest does not parse.
        """
        if self.step != step:
            return None
        for mistake in MISTAKES:
            if self.error_class == mistake:
                return mistake
        return self.manifest.mistake if self.manifest else None

    def shape(self) -> Shape:
        """What requests leave out by now.

        Raises:
            InvariantBroken: the manifest does not parse.
        """
        manifest = self.manifest
        shape = manifest.shape if manifest else Shape()
        if self.summary is None:
            return shape
        # A summary may be newer than the latest request that came through.
        return shape.model_copy(update={"summary": self.summary, "first_kept": self.first_kept})


NOTHING_SENT: Final = LastSent()

# The thread's run before this one, as it was when this one began. Nothing where an older run of the
# thread went on after that one had begun: its summaries know nothing of that.
_BEFORE: Final = """
WITH b AS (
  SELECT opened_at FROM model_calls WHERE run_id = %(run_id)s AND step = 1 AND attempt = 1),
began AS (
  SELECT e.run_id, f.opened_at FROM b, entries e
  JOIN model_calls f ON f.run_id = e.run_id AND f.step = 1 AND f.attempt = 1
  WHERE e.thread_id = %(thread_id)s AND e.run_id <> %(run_id)s AND e.kind = 'request'
    AND f.opened_at < b.opened_at),
n AS (SELECT run_id, opened_at FROM began ORDER BY opened_at DESC, run_id DESC LIMIT 1)
SELECT m.manifest, s.id AS summary, s.first_kept_run, s.first_kept_step
FROM n
LEFT JOIN LATERAL (
  SELECT c.manifest FROM model_calls c, b
  WHERE c.run_id = n.run_id AND c.purpose = 'main' AND c.manifest IS NOT NULL
    AND c.closed_at < b.opened_at
  ORDER BY c.step DESC, c.attempt DESC LIMIT 1) m ON true
LEFT JOIN LATERAL (
  SELECT c.id, c.first_kept_run, c.first_kept_step FROM summaries c, b
  WHERE c.run_id = n.run_id AND c.created_at < b.opened_at
  ORDER BY c.number DESC LIMIT 1) s ON true
WHERE NOT EXISTS (
  SELECT 1 FROM b, began o JOIN events d ON d.run_id = o.run_id AND d.kind = 'step.decided'
  WHERE o.run_id <> n.run_id AND d.at > n.opened_at AND d.at < b.opened_at)
"""


def load_shape_before(database: Database, run_id: RunId, thread_id: ThreadId) -> Shape:
    """What the requests of a thread's run before this one left out when this one began.

    Raises:
        InvariantBroken: the manifest of its latest request does not parse.
    """
    [rows] = database.run((_BEFORE, {"run_id": run_id, "thread_id": thread_id}))
    if not rows:
        return Shape()
    return last_sent(
        rows[0]
        | {"step": 0, "error_class": None, "request_sha": None, "size_refusals": 0, "number": 0}
    ).shape()


def last_sent(row: Row) -> LastSent:
    """A row of LAST_SENT."""
    first_kept = None
    if row["summary"] is not None:
        first_kept = Place(run_id=row["first_kept_run"], step=row["first_kept_step"])
    return LastSent(
        step=row["step"] or 0,
        manifest_text=row["manifest"],
        error_class=row["error_class"],
        request_sha=None if row["request_sha"] is None else bytes(row["request_sha"]),
        size_refusals=row["size_refusals"],
        summary=row["summary"],
        summaries=row["number"] or 0,
        first_kept=first_kept,
    )
