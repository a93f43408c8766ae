"""Rows of steps as the parts of a record that requests are built from."""

from collections.abc import Iterable

from loop.response import ModelTurn
from loop.transcript import RecordedCall, RecordedStep
from models.database import Row
from models.schema import parse_stored


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
        results: id, step, tool, args_text and view, by step and position.
        corrections: of the run; those that its replies heard are taken.

    Raises:
        InvariantBroken: a stored reply does not parse.
    """
    by_step: dict[int, list[RecordedCall]] = {}
    for row in results:
        call = RecordedCall(row["id"], row["tool"], row["args_text"], row["view"])
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
