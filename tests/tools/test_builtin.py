import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from loop.outcome import Errored
from tools.builtin import BUILTIN, search
from tools.builtin.evidence import evidence_read
from tools.builtin.files import list_files, read_file, write_file
from tools.builtin.search import search_files
from tools.definition import from_function
from tools.trial import MemoryEvidence, TrialContext, try_tool
from tools.workspace import DirectoryWorkspace
from umbel.errors import InvalidInput
from umbel.testing import call_tool
from umbel.tool import ToolFailed

CASE = Path(__file__).parents[1] / "data/cases/badinput/21-path-traversal.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small workspace."""
    inside = tmp_path / "ws"
    (inside / "docs").mkdir(parents=True)
    (inside / "docs/guide.md").write_text("# Guide\nWhen a Worker dies,\nthe run goes on.\n")
    (inside / "notes.txt").write_text("nothing here\nworker again")
    (inside / "node_modules").mkdir()
    (inside / "node_modules/worker.js").write_text("worker\n")
    (inside / "image.png").write_bytes(b"\x89PNG\x00worker")
    (tmp_path / "secret.txt").write_text("worker secret")
    return inside


def test_effects_and_placements_are_as_agreed() -> None:
    tools = {tool.name: tool for tool in map(from_function, BUILTIN)}
    assert {name: (tool.effect, tool.placement) for name, tool in tools.items()} == {
        "list_files": ("read", "inline"),
        "read_file": ("read", "inline"),
        "search_files": ("read", "inline"),
        "write_file": ("mutation", "task"),
        "evidence_read": ("read", "inline"),
        "web_read": ("read", "task"),
    }


def test_every_argument_is_described_to_the_model_and_the_context_is_not() -> None:
    for tool in map(from_function, BUILTIN):
        assert len(tool.description) < 300
        assert "context" not in tool.input_schema["properties"]
        for name, rule in tool.input_schema["properties"].items():
            assert rule.get("description"), f"{tool.name}.{name}"


def test_files_are_listed(folder: Path) -> None:
    assert call_tool(list_files, workspace=folder, path="docs") == {
        "path": "docs",
        "files": [{"path": "docs/guide.md", "kind": "file", "size_bytes": 45}],
    }
    names = [entry["path"] for entry in call_tool(list_files, workspace=folder)["files"]]
    assert names == ["docs", "image.png", "node_modules", "notes.txt"]


def test_a_very_long_listing_says_how_much_is_not_shown(tmp_path: Path) -> None:
    for number in range(1003):
        (tmp_path / f"{number:04}").touch()
    listed = call_tool(list_files, workspace=tmp_path)
    assert len(listed["files"]) == 1000
    assert listed["not_shown"] == 3


def test_a_file_is_read_whole_or_by_lines(folder: Path) -> None:
    whole = call_tool(read_file, workspace=folder, path="docs/guide.md")
    assert whole == {
        "path": "docs/guide.md",
        "start_line": 1,
        "end_line": 3,
        "total_lines": 3,
        "text": "# Guide\nWhen a Worker dies,\nthe run goes on.\n",
    }
    part = call_tool(read_file, workspace=folder, path="docs/guide.md", start_line=2, max_lines=1)
    assert (part["text"], part["end_line"]) == ("When a Worker dies,\n", 2)


def test_lines_read_one_after_another_are_the_file(tmp_path: Path) -> None:
    text = "a\r\nb\x0cc\u2028d\n\n\ne"
    (tmp_path / "f").write_bytes(text.encode())
    total = call_tool(read_file, workspace=tmp_path, path="f")["total_lines"]
    pages = [
        call_tool(read_file, workspace=tmp_path, path="f", start_line=line, max_lines=1)["text"]
        for line in range(1, total + 1)
    ]
    assert "".join(pages) == text


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    read = call_tool(read_file, workspace=tmp_path, path="f")
    assert (read["text"], read["total_lines"], read["end_line"]) == ("", 0, 0)


def test_a_line_past_the_end_is_an_error_with_the_number_of_lines(folder: Path) -> None:
    with pytest.raises(ToolFailed, match="has 3 lines; line 4"):
        call_tool(read_file, workspace=folder, path="docs/guide.md", start_line=4)


def test_a_binary_file_is_not_shown_as_text(folder: Path) -> None:
    with pytest.raises(ToolFailed, match="binary file of 11 bytes"):
        call_tool(read_file, workspace=folder, path="image.png")


def test_bytes_that_are_not_utf8_are_mentioned(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"gr\xfcn")
    assert "not UTF-8" in call_tool(read_file, workspace=tmp_path, path="f")["note"]


@pytest.mark.parametrize("path", json.loads(CASE.read_text())["given"]["path"])
def test_bad_paths_end_as_an_error_the_model_can_act_on(folder: Path, path: str) -> None:
    context = TrialContext(folder=DirectoryWorkspace(folder))
    try:
        outcome = try_tool(read_file, {"path": path}, context)
    except InvalidInput:
        assert path == ""  # the schema refuses it before the tool
        return
    assert isinstance(outcome, Errored)
    assert json.loads(outcome.text)["error"]["code"] in {"invalid_input", "not_found"}


def test_text_is_found_whatever_its_case_outside_skipped_folders(folder: Path) -> None:
    found = call_tool(search_files, workspace=folder, query="WORKER")
    assert found == {
        "matches": [
            {"path": "notes.txt", "line": 2, "text": "worker again"},
            {"path": "docs/guide.md", "line": 2, "text": "When a Worker dies,"},
        ],
        "files_searched": 2,
        "cut": False,
        "files_skipped": {"binary": 1},
    }


def test_a_search_can_be_narrowed(folder: Path) -> None:
    def paths(**arguments: Any) -> list[str]:
        found = call_tool(search_files, workspace=folder, query="worker", **arguments)
        return [match["path"] for match in found["matches"]]

    assert paths(case_sensitive=True) == ["notes.txt"]
    assert paths(glob="*.md") == ["docs/guide.md"]
    assert paths(glob="docs/*") == ["docs/guide.md"]
    assert paths(path="docs") == ["docs/guide.md"]
    assert paths(path="node_modules") == ["node_modules/worker.js"]
    assert paths(glob="*.js") == []


def test_a_search_is_literal(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a.c\nabc\n%_\\\n")
    for query, line in (("a.c", 1), ("%_\\", 3)):
        matches = call_tool(search_files, workspace=tmp_path, query=query)["matches"]
        assert [match["line"] for match in matches] == [line]


def test_a_search_that_finds_too_much_says_it_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n" * 3)
    (tmp_path / "b").write_text("x\n" * 3)
    found = call_tool(search_files, workspace=tmp_path, query="x", max_matches=4)
    assert (len(found["matches"]), found["cut"]) == (4, True)
    exact = call_tool(search_files, workspace=tmp_path, query="x", max_matches=6)
    assert (len(exact["matches"]), exact["cut"]) == (6, False)


def test_a_long_line_is_shown_around_the_match(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a" * 5000 + "needle" + "b" * 5000)
    (match,) = call_tool(search_files, workspace=tmp_path, query="needle")["matches"]
    assert "needle" in match["text"]
    assert len(match["text"]) <= 302


def test_huge_files_are_skipped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_FILE_BYTES", 10)
    (tmp_path / "f").write_text("needle " * 10)
    found = call_tool(search_files, workspace=tmp_path, query="needle")
    assert found["files_skipped"] == {"larger than 10 bytes": 1}
    assert found["matches"] == []


def test_a_search_ends_at_its_budget_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_TOTAL_BYTES", 5)
    for name in "abc":
        (tmp_path / name).write_text("123456")
    found = call_tool(search_files, workspace=tmp_path, query="x")
    assert (found["files_searched"], found["cut"]) == (1, True)


def test_a_search_follows_no_link_out_and_shows_that_it_is_alive(folder: Path) -> None:
    (folder / "out").symlink_to(folder.parent)
    (folder / "secret.lnk").symlink_to(folder.parent / "secret.txt")
    context = TrialContext(folder=DirectoryWorkspace(folder))
    outcome = try_tool(search_files, {"query": "secret"}, context)
    assert json.loads(outcome.text)["matches"] == []  # type: ignore[union-attr]
    assert len(context.notes) == 3


def test_a_query_of_several_lines_is_refused(folder: Path) -> None:
    with pytest.raises(ToolFailed, match="several lines"):
        call_tool(search_files, workspace=folder, query="a\nb")


def test_searching_a_folder_that_is_not_there_is_an_error(folder: Path) -> None:
    with pytest.raises(ToolFailed, match="There is no 'gone'"):
        call_tool(search_files, workspace=folder, query="a", path="gone")


def test_a_file_is_written_with_its_size_and_digest(folder: Path) -> None:
    written = call_tool(write_file, workspace=folder, path="new/a.txt", text="ä\n")
    assert written == {
        "path": "new/a.txt",
        "size_bytes": 3,
        "sha256": hashlib.sha256("ä\n".encode()).hexdigest(),
    }
    assert (folder / "new/a.txt").read_text() == "ä\n"


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/x", "docs", "docs/guide.md/x", "."])
def test_a_refused_write_is_a_definite_failure_not_an_unknown_one(folder: Path, path: str) -> None:
    with pytest.raises(ToolFailed):
        call_tool(write_file, workspace=folder, path=path, text="x")
    assert (folder.parent / "secret.txt").read_text() == "worker secret"


def test_a_write_without_a_workspace_is_a_definite_failure() -> None:
    with pytest.raises(ToolFailed, match="no workspace"):
        call_tool(write_file, path="a", text="x")


STORED = json.dumps({"lines": ["a\nb", 'say "hi"', "x" * 300_000, "end"]})


def page(**arguments: Any) -> dict[str, Any]:
    read = call_tool(evidence_read, evidence={"call_1": STORED}, handle="call_1", **arguments)
    assert isinstance(read, dict)
    return read


def test_pages_put_together_are_the_stored_result() -> None:
    pieces, offset = [], 0
    while offset is not None:
        read = page(offset=offset, limit=32_000)
        assert read["total_chars"] == len(STORED)
        pieces.append(read["text"])
        offset = read["next_offset"]
    assert "".join(pieces) == STORED


def test_a_search_in_a_result_starts_the_page_at_the_hit() -> None:
    found = page(find="end")
    assert found["found"]
    assert found["offset"] == STORED.index("end")
    assert found["text"].startswith("end")


@pytest.mark.parametrize("wanted", ["a\nb", 'say "hi"', '"lines": ['])
def test_a_search_in_a_result_finds_text_in_its_stored_form(wanted: str) -> None:
    assert page(find=wanted, limit=10)["found"]


def test_a_search_begins_at_the_offset_and_says_when_there_is_nothing() -> None:
    nothing = page(find="lines", offset=10)
    assert nothing == {
        "handle": "call_1",
        "offset": 10,
        "next_offset": None,
        "total_chars": len(STORED),
        "sha256": "",
        "captured_at": None,
        "text": "",
        "found": False,
    }


def test_a_hit_across_two_scanned_pages_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.json_text.PART_CHARS", 4)
    text = "abcdefghij" * 3 + "needle"
    found = call_tool(evidence_read, evidence={"c": text}, handle="c", find="hijneedle")
    assert found["offset"] == text.index("hijneedle")


@pytest.mark.parametrize(
    "arguments",
    [{"offset": -1}, {"limit": 0}, {"limit": 32_001}, {"offset": 1.0}, {"find": ""}],
)
def test_impossible_pages_are_refused_by_the_schema(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="evidence_read"):
        page(**arguments)


def test_a_page_past_the_end_and_an_unknown_handle_are_errors() -> None:
    with pytest.raises(ToolFailed, match="lies outside"):
        page(offset=len(STORED) + 1)
    context = TrialContext(evidence=MemoryEvidence({}))
    outcome = try_tool(evidence_read, {"handle": "call_2"}, context)
    assert isinstance(outcome, Errored)
    assert json.loads(outcome.text)["error"]["code"] == "not_found"


def test_a_settings_file_is_a_definite_refusal_of_write_file(folder: Path) -> None:
    with pytest.raises(ToolFailed, match="no tool writes that file"):
        call_tool(write_file, workspace=folder, path="docs/umbel.toml", text="permission = 'x'")
