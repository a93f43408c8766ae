"""The tools inside the workers; each asks the world outside (outside.py), which does the deed.

Named in UMBEL_TOOLS. UMBEL_CASE_COORDINATOR says where the world listens.
"""

import umbel
from tests.cases.coordinator_client import tell
from umbel.tool import ToolFailed


@umbel.tool(effect="read")
def look(context: umbel.ToolContext, key: str) -> str:
    """Look something up."""
    return _ask("look", context, key)


@umbel.tool(effect="idempotent")
def note(context: umbel.ToolContext, key: str) -> str:
    """Write something down that may be written twice."""
    return _ask("note", context, key)


@umbel.tool(effect="mutation", stall_seconds=4.0)
def change(context: umbel.ToolContext, key: str) -> str:
    """Change something; four seconds of silence are too many."""
    return _ask("change", context, key)


@umbel.tool(effect="mutation", stall_seconds=30.0)
def alter(context: umbel.ToolContext, key: str) -> str:
    """Change something that may take long."""
    return _ask("alter", context, key)


def _ask(tool: str, context: umbel.ToolContext, key: str) -> str:
    visit = {"tool": tool, "key": key, "call_id": context.call_id, "run_id": context.run_id}
    answer = tell("/tool", visit)
    if "refused" in answer:
        raise ToolFailed(str(answer["refused"]))
    if "error" in answer:
        raise RuntimeError(str(answer["error"]))
    return str(answer["value"])
