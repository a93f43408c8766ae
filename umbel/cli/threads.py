"""`umbel threads share|unshare`: who beside its owner may correct the runs of a thread."""

from collections.abc import Sequence
from pathlib import Path

from umbel.cli import exits
from umbel.cli.acting import Acting, acting


def share_command(
    thread: str, collaborators: Sequence[str], data: Path | None, *, is_json: bool
) -> int:
    """Name everybody who may correct the runs of a thread; nobody makes it private.

    Raises:
        InvalidInput: a name is none.
        NotFound: there is no such thread of this user.
        Unavailable: the record does not answer; it is safe to repeat.
    """
    with acting(data, is_json=is_json) as system:
        thread_id = _thread_of(system, thread)
        system.service.share(thread_id, collaborators)
        names = sorted(set(collaborators))
        said = f"{', '.join(names)} may correct its runs" if names else "nobody but you"
        facts = {"thread_id": thread_id, "collaborators": names}
        word = "shared" if names else "private"
        system.say("thread.shared", facts, [(word, f"{thread_id}: {said}")])
    return exits.COMPLETED


def _thread_of(system: Acting, thread: str) -> str:
    """The thread itself, or the one of a run."""
    return thread if thread.startswith("thr_") else system.find(thread)[0].thread_id
