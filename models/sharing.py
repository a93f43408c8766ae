"""Who beside its owner may correct the runs of a thread."""

from collections.abc import Collection
from typing import Final

from models.database import Database
from models.input_checks import check_storable
from umbel.contracts import Principal, ThreadId
from umbel.errors import InvalidInput, NotFound

_SHARE: Final = """
UPDATE threads SET collaborators = %(collaborators)s::text[], visibility = %(visibility)s
WHERE id = %(thread_id)s AND tenant = %(tenant)s AND owner = %(owner)s RETURNING id
"""


def share_thread(
    database: Database, thread_id: ThreadId, principal: Principal, collaborators: Collection[str]
) -> None:
    """Make a thread public with these collaborators, or private again with none.

    They may correct its runs, and nothing else. What they have said stays said.

    Raises:
        InvalidInput: a name is empty or cannot be stored.
        NotFound: there is no such thread of this owner.
    """
    for name in collaborators:
        check_storable("A collaborator's name", name)
        if not name.strip():
            raise InvalidInput("A collaborator's name is empty.")
    parameters = {
        "thread_id": thread_id,
        "tenant": principal.tenant,
        "owner": principal.user,
        "collaborators": sorted(set(collaborators)),
        "visibility": "public" if collaborators else "private",
    }
    [rows] = database.run((_SHARE, parameters))
    if not rows:
        raise NotFound(f"There is no thread {thread_id!r} of yours.")
