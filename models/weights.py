"""What endpoints have counted lately of requests whose weight is known."""

from typing import Final

from loop.weight import Weight
from models.database import Database
from models.schema import parse_stored

_RUNS: Final = 200
_REQUESTS: Final = 20

# Ids sort by time: the latest runs are read off the end of an index, whatever the table's size.
_RECENT: Final = f"""
SELECT (m.manifest::jsonb -> 'weight')::text AS weight, m.input_tokens
FROM (SELECT run_id, model FROM run_specs ORDER BY run_id DESC LIMIT {_RUNS}) s
JOIN model_calls m ON m.run_id = s.run_id
WHERE s.model = %(model)s AND m.input_tokens IS NOT NULL AND NOT m.is_estimated
  AND jsonb_typeof(m.manifest::jsonb -> 'weight') = 'object'
LIMIT {_REQUESTS}
"""  # noqa: S608 - constant text, no input


def recent_weights(database: Database, model: str) -> list[tuple[Weight, int]]:
    """Weights of recent requests to a model, with the input tokens that its endpoint counted."""
    [rows] = database.run((_RECENT, {"model": model}))
    return [(parse_stored(Weight, row["weight"]), row["input_tokens"]) for row in rows]
