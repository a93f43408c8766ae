"""Reading and writing files of the run's workspace."""

import hashlib
from typing import Annotated, Any, Final

from pydantic import Field

from umbel.errors import InvalidInput, Rejected, Unavailable
from umbel.tool import ToolContext, ToolFailed, tool

MAX_LISTED: Final = 1000
_BINARY_PROBE_BYTES: Final = 8192

Path = Annotated[str, Field(min_length=1, max_length=4096)]


@tool(effect="read", placement="inline")
def list_files(context: ToolContext, path: Path = ".") -> dict[str, Any]:
    """List what is directly in a folder of the workspace: path, kind and size of each entry.

    Args:
        context: The run's side of things; the model does not see it.
        path: Folder, relative to the workspace; "." is the workspace itself.
    """
    entries = context.workspace.list_files(path)
    listed: dict[str, Any] = {
        "path": path,
        "files": [
            {"path": entry.path, "kind": entry.kind, "size_bytes": entry.size_bytes}
            for entry in entries[:MAX_LISTED]
        ],
    }
    if len(entries) > MAX_LISTED:
        listed["not_shown"] = len(entries) - MAX_LISTED
    return listed


@tool(effect="read", placement="inline")
def read_file(
    context: ToolContext,
    path: Path,
    start_line: Annotated[int, Field(ge=1)] = 1,
    max_lines: Annotated[int, Field(ge=1)] | None = None,
) -> dict[str, Any]:
    """Read a text file of the workspace, all of it or some of its lines.

    Args:
        context: The run's side of things; the model does not see it.
        path: File, relative to the workspace.
        start_line: First line to read, from 1.
        max_lines: How many lines to read at most; all if left out.
    """
    data = context.workspace.read_bytes(path)
    if b"\0" in data[:_BINARY_PROBE_BYTES]:
        raise InvalidInput(f"{path[:200]!r} is a binary file of {len(data)} bytes, not text.")
    _name_source(context, path, data)
    text = data.decode("utf-8", errors="replace")
    lines = _lines(text)
    if start_line > max(1, len(lines)):
        raise InvalidInput(f"{path[:200]!r} has {len(lines)} lines; line {start_line} is past it.")
    end = len(lines) if max_lines is None else min(len(lines), start_line - 1 + max_lines)
    read: dict[str, Any] = {
        "path": path,
        "start_line": start_line,
        "end_line": end,
        "total_lines": len(lines),
        "text": "".join(lines[start_line - 1 : end]),
    }
    if text.encode() != data:
        read["note"] = "some bytes are not UTF-8 and are shown as U+FFFD"
    return read


@tool(effect="mutation", resource_key="file:{workspace}/{path}")
def write_file(context: ToolContext, path: Path, text: str) -> dict[str, Any]:
    """Write a text file of the workspace, replacing it if it exists; folders are made as needed.

    Args:
        context: The run's side of things; the model does not see it.
        path: File, relative to the workspace.
        text: The whole new content.
    """
    try:
        size_bytes = context.workspace.write_text(path, text)
    except (Rejected, Unavailable) as error:
        # The workspace promises: after these the file is as it was. Definite, so say so.
        raise ToolFailed(str(error)) from error
    digest = _name_source(context, path, text.encode())
    return {"path": path, "size_bytes": size_bytes, "sha256": digest}


def _name_source(context: ToolContext, path: str, data: bytes) -> str:
    """Let the result rest on the file as it is now; its SHA-256."""
    digest = hashlib.sha256(data).hexdigest()
    context.source("file", context.workspace.source_id(path), digest)
    return digest


def _lines(text: str) -> list[str]:
    r"""Lines with their ends; only `\n` ends one, as every editor counts."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines
