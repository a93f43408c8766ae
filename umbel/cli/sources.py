"""`umbel sources changed|deleted`: a source that runs have read is not what it was."""

from dataclasses import asdict
from pathlib import Path

from umbel.cli import exits
from umbel.cli.acting import Lines, acting
from umbel.cli.request_text import request_text

_SHOWN_RUNS = 10


def notice_command(
    source: str,
    data: Path | None,
    *,
    revision: str | None,
    is_json: bool,
    is_deleted: bool = False,
    reason: str = "",
    text: str | None = None,
) -> int:
    """Tell the runs that rest on a source; 0 whether or not there are any.

    Raises:
        InvalidInput: the source is none, or a text cannot be stored.
        Unavailable: the record does not answer.
    """
    words = None if text is None else request_text(text)
    with acting(data, is_json=is_json) as system:
        noted = system.service.note_source(
            source, revision=revision, is_deleted=is_deleted, reason=reason, text=words
        )
        kind = "source.deleted" if is_deleted else "source.changed"
        word = "deleted" if is_deleted else "changed"
        news = "noted" if noted.is_new else "no news: it is known, or newer is known"
        lines = [(word, f"{noted.source}: {news}"), *_of_runs(noted.run_ids)]
        system.say(kind, asdict(noted), lines)
    return exits.COMPLETED


def _of_runs(run_ids: tuple[str, ...]) -> Lines:
    if not run_ids:
        return [("runs", "none at work rests on what it was")]
    shown = ", ".join(run_ids[:_SHOWN_RUNS])
    more = f" and {len(run_ids) - _SHOWN_RUNS} more" if len(run_ids) > _SHOWN_RUNS else ""
    return [("runs", f"{shown}{more} look at it before they ask again")]
