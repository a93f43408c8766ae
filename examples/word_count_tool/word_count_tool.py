"""A tool of your own, complete."""

import umbel


@umbel.tool(effect="read", placement="inline")
def word_count(context: umbel.ToolContext, path: str) -> dict[str, int]:
    """Count the words of a text file in the workspace.

    Args:
        path: File, relative to the workspace.
    """
    return {"words": len(context.workspace.read_text(path).split())}
