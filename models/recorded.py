"""Rows of steps as the parts of a record that requests are built from."""

from collections.abc import Iterable
from typing import Final

from loop.pictures import Picture
from loop.response import ModelTurn
from loop.transcript import RecordedCall, RecordedStep
from models.database import Row
from models.schema import parse_stored

PICTURES: Final = """
CASE WHEN {condition} THEN ARRAY(SELECT p.media_type FROM pictures p
  WHERE p.capture_id = {evidence}.capture_id ORDER BY p.number) END AS picture_types,
CASE WHEN {condition} THEN ARRAY(SELECT p.body FROM pictures p
  WHERE p.capture_id = {evidence}.capture_id ORDER BY p.number) END AS pictures
"""
"""Columns of a result: its pictures, where they are to be shown."""


class Corrections:
    """What people wrote to one run, handed out once: to the first reply that heard of it."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._waiting = [(row["rev"], row["text"]) for row in rows]

    def heard(self, through: int) -> tuple[str, ...]:
        """Take those up to a revision."""
        texts = tuple(text for rev, text in self._waiting if rev <= through)
        del self._waiting[: len(texts)]
        return texts


def recorded_steps(
    replies: Iterable[Row], results: Iterable[Row], corrections: Corrections
) -> tuple[RecordedStep, ...]:
    """The steps of one run, in order.

    Args:
        replies: step, endpoint, reply and steers, by step.
        results: id, step, tool, args_text, view and `PICTURES`, by step and position.
        corrections: of the run; those that its replies heard are taken.

    Raises:
        InvariantBroken: a stored reply does not parse.
    """
    by_step: dict[int, list[RecordedCall]] = {}
    for row in results:
        call = RecordedCall(
            row["id"], row["tool"], row["args_text"], row["view"], _pictures_of(row)
        )
        by_step.setdefault(row["step"], []).append(call)
    return tuple(
        RecordedStep(
            row["step"],
            row["endpoint"],
            parse_stored(ModelTurn, row["reply"]),
            tuple(by_step.get(row["step"], [])),
            corrections.heard(row["steers"]),
            row["steers"],
        )
        for row in replies
    )


def _pictures_of(row: Row) -> tuple[Picture, ...]:
    if not row["pictures"]:
        return ()
    return tuple(
        Picture(kind, bytes(body))
        for kind, body in zip(row["picture_types"], row["pictures"], strict=True)
    )
