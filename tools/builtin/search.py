"""Searching the workspace for literal text."""

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field

from umbel.errors import InvalidInput, NotFound
from umbel.tool import FileEntry, ToolContext, Workspace, tool

MAX_FILE_BYTES: Final = 2 * 1024 * 1024
MAX_TOTAL_BYTES: Final = 256 * 1024 * 1024
MAX_FILES: Final = 20_000
LINE_CHARS: Final = 300
SKIPPED_FOLDERS: Final = frozenset(
    {
        ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache",
        ".ruff_cache", ".pytest_cache", ".tox", ".idea", ".cache",
    }
)  # fmt: skip
_BINARY_PROBE_BYTES: Final = 8192


@dataclass(slots=True)
class _Search:
    """One search and what it has found so far."""

    query: str
    is_case_sensitive: bool
    max_matches: int
    matches: list[dict[str, Any]] = field(default_factory=list)
    files_searched: int = 0
    bytes_searched: int = 0
    skipped: dict[str, int] = field(default_factory=dict)

    def is_full(self) -> bool:
        return (
            len(self.matches) > self.max_matches
            or self.bytes_searched >= MAX_TOTAL_BYTES
            or self.files_searched >= MAX_FILES
        )

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


@tool(effect="read", placement="inline")
def search_files(
    context: ToolContext,
    query: Annotated[str, Field(min_length=1, max_length=500)],
    path: Annotated[str, Field(min_length=1, max_length=4096)] = ".",
    glob: Annotated[str, Field(min_length=1, max_length=200)] | None = None,
    case_sensitive: bool = False,  # noqa: FBT001, FBT002 -- the model gives arguments by name
    max_matches: Annotated[int, Field(ge=1, le=200)] = 50,
) -> dict[str, Any]:
    """Find literal text (no pattern) in the workspace's text files, line by line.

    Version control, dependency and cache folders are left out; name one as `path` to search it.

    Args:
        context: The run's side of things; the model does not see it.
        query: Text to find within one line.
        path: Folder to search, relative to the workspace; "." is all of it.
        glob: Only files whose path or name fits, such as "*.md" or "docs/*.txt".
        case_sensitive: Whether upper and lower case differ.
        max_matches: How many matching lines to return at most.
    """
    if "\n" in query:
        raise InvalidInput("The query spans several lines: search for one of them.")
    search = _Search(query if case_sensitive else query.casefold(), case_sensitive, max_matches)
    is_cut = False
    for entry in _files(context.workspace, path):
        if search.is_full():
            is_cut = True
            break
        if _fits(entry.path, glob):
            context.progress()
            _search_file(context.workspace, entry, search)
    found: dict[str, Any] = {
        "matches": search.matches[:max_matches],
        "files_searched": search.files_searched,
        "cut": is_cut or len(search.matches) > max_matches,
    }
    if search.skipped:
        found["files_skipped"] = search.skipped
    return found


def _files(workspace: Workspace, path: str) -> Iterator[FileEntry]:
    """Regular files below a folder, folder by folder, names in order."""
    folders = [path]
    is_start = True
    while folders:
        try:
            entries = workspace.list_files(folders.pop())
        except (NotFound, InvalidInput):
            if is_start:
                raise
            continue  # gone or changed since its parent was listed
        is_start = False
        yield from (entry for entry in entries if entry.kind == "file")
        folders.extend(
            entry.path
            for entry in reversed(entries)
            if entry.kind == "folder" and entry.path.rpartition("/")[2] not in SKIPPED_FOLDERS
        )


def _fits(path: str, glob: str | None) -> bool:
    if glob is None:
        return True
    name = path.rpartition("/")[2]
    return fnmatch.fnmatchcase(path, glob) or fnmatch.fnmatchcase(name, glob)


def _search_file(workspace: Workspace, entry: FileEntry, search: _Search) -> None:
    if entry.size_bytes > MAX_FILE_BYTES:
        search.skip(f"larger than {MAX_FILE_BYTES} bytes")
        return
    try:
        data = workspace.read_bytes(entry.path, MAX_FILE_BYTES)
    except (NotFound, InvalidInput):
        search.skip("not readable")
        return
    if b"\0" in data[:_BINARY_PROBE_BYTES]:
        search.skip("binary")
        return
    search.files_searched += 1
    search.bytes_searched += len(data)
    text = data.decode("utf-8", errors="replace")
    if search.query not in (text if search.is_case_sensitive else text.casefold()):
        return
    for number, line in enumerate(text.split("\n"), start=1):
        at = (line if search.is_case_sensitive else line.casefold()).find(search.query)
        if at < 0:
            continue
        search.matches.append({"path": entry.path, "line": number, "text": _shown(line, at)})
        if len(search.matches) > search.max_matches:
            return


def _shown(line: str, at: int) -> str:
    """The line, or the part of a long one around the match."""
    if len(line) <= LINE_CHARS:
        return line.rstrip("\r")
    start = max(0, min(at - LINE_CHARS // 3, len(line) - LINE_CHARS))
    end = start + LINE_CHARS
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
