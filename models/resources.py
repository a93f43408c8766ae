"""What a running change has named of what it makes outside."""

import json
from collections.abc import Sequence
from typing import Final

from models.calls import Started
from models.database import Database

# Facts, as outcomes are: of this attempt, however late. The receipt alone is locked.
_KEEP: Final = """
UPDATE receipts x SET resources = %(resources)s::jsonb FROM calls c
WHERE x.call_id = %(call_id)s AND c.id = x.call_id AND x.attempt = %(attempt)s
  AND c.holder = %(worker)s
RETURNING x.call_id
"""


def keep_resources(database: Database, started: Started, resources: Sequence[str]) -> bool:
    """Write the ids into the receipt while the change still runs: its worker may not live to.

    Replaces those that stood there. False: the attempt is another one's.
    """
    parameters = {
        "call_id": started.call.call_id,
        "attempt": started.attempt,
        "worker": started.worker,
        "resources": json.dumps(list(resources)),
    }
    [rows] = database.run((_KEEP, parameters))
    return bool(rows)
