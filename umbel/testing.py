"""For tests of your own tools: one call, through the same checks as in production.

def test_words_are_counted(tmp_path):
    (tmp_path / "note.txt").write_text("one two three")
    assert call_tool(word_count, workspace=tmp_path, path="note.txt") == 3
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from umbel.errors import UmbelError
from umbel.server_path import bind_server_packages
from umbel.tool import ToolFailed
from umbel.web_targets.allowing import AllowList

__all__ = ["UnknownOutcome", "call_tool"]


class UnknownOutcome(UmbelError):
    """The tool is a mutation and raised something other than `ToolFailed`.

    In production nobody would know whether its change happened: the run would pause and ask.
    """


def call_tool(
    function: Callable[..., object],
    /,
    *,
    workspace: Path | None = None,
    evidence: Mapping[str, str] | None = None,
    web_allow: Sequence[str] = (),
    **arguments: object,
) -> Any:
    """The result of one call of a function marked with `@umbel.tool`, as the model would read it.

    Arguments are checked against the tool's schema, parsed to the function's types, and the result
    goes through its stored JSON form: a date comes back as text, a tuple as a list.

    Args:
        function: the tool.
        workspace: an existing folder that becomes the run's workspace.
        evidence: earlier results by handle, for tools that read them.
        web_allow: web servers that may be asked beside the public ones, as in `UMBEL_WEB_ALLOW`.
        arguments: the arguments by name.

    Raises:
        Misconfigured: the function cannot be a tool.
        InvalidInput: the arguments do not fit; a model would be told so, and nothing would run.
        ToolFailed: the tool failed, and it is certain that it changed nothing.
        UnknownOutcome: it is a mutation and raised something else.
    """
    # Server packages are importable only after they are bound, so not at the top of this module.
    bind_server_packages()
    from loop.outcome import Errored, Returned, Unknown
    from tools.trial import MemoryEvidence, TrialContext, trial_workspace, try_tool
    from tools.web.client import WebAccess

    context = TrialContext(
        folder=None if workspace is None else trial_workspace(workspace),
        evidence=MemoryEvidence(evidence or {}),
        web_access=WebAccess(AllowList.of(web_allow)),
    )
    match try_tool(function, arguments, context):
        case Returned(text=text):
            return json.loads(text)
        case Errored(text=text):
            raise ToolFailed(json.loads(text)["error"]["message"])
        case Unknown(detail=detail):
            raise UnknownOutcome(detail)
