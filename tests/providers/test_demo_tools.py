"""The demo model with the real built-in tools and the real views of their results."""

import json
from pathlib import Path
from typing import Any

import pytest

from providers.demo_quote import quoted, shortened
from providers.demo_script import INTRO
from providers.demo_wish import wish_of
from tests.providers.test_demo import TOOLS, run
from tools.builtin import BUILTIN
from tools.result import encode_result, error_text, view_of
from umbel.testing import call_tool
from umbel.tool import ToolFailed

ALL = (*TOOLS, TOOLS[0].__class__("evidence_read", "evidence_read", {"type": "object"}))
NEEDS_A_MODEL = "Set OPENAI_API_KEY"


class Folder:
    """A real folder behind the built-in tools; results are shown up to `view_chars`."""

    def __init__(self, folder: Path, view_chars: int = 8000) -> None:
        self.folder = folder
        self.view_chars = view_chars
        self.results: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def call(self, call_id: str, name: str, arguments: dict[str, Any]) -> str:
        self.asked.append((name, arguments))
        function = next(tool for tool in BUILTIN if tool.__name__ == name)
        try:
            value = call_tool(function, workspace=self.folder, evidence=self.results, **arguments)
            text = encode_result(value).text
        except ToolFailed as failed:
            text = error_text("failed", str(failed))
        self.results[call_id] = text
        return view_of(text, self.view_chars, call_id)

    def asked_of(self, name: str) -> list[dict[str, Any]]:
        return [given for called, given in self.asked if called == name]


def big(folder: Path, line: str, name: str = "big.log") -> None:
    """A file of 5.1 MB, too large for the search, with the line near its end."""
    filler = 'a line with "quotes", a \\ and nothing else in it\n'
    count = 5_100_000 // len(filler)
    (folder / name).write_text(filler * count + line + "\n" + filler * 5)


def ask(request: str, folder: Path, **more: Any) -> tuple[str, Folder]:
    workspace = Folder(folder)
    return run(request, workspace, ALL, **more), workspace


def test_a_file_too_large_to_search_is_read_and_the_text_found_in_it(tmp_path: Path) -> None:
    big(tmp_path, 'the code is SECRET-TOKEN "42" \\o/')
    answer, workspace = ask('Find "SECRET-TOKEN" in big.log', tmp_path)
    assert 'In big.log it says: “the code is SECRET-TOKEN "42" \\o/”' in answer
    assert "left out 1 file (1 larger than 2097152 bytes)" in answer
    assert workspace.asked_of("evidence_read")[0]["find"] == "SECRET-TOKEN"
    assert len(workspace.asked) <= 6


def test_a_large_file_that_nobody_named_is_read_too_in_any_case(tmp_path: Path) -> None:
    big(tmp_path, "here a Walrus sits")
    answer, _ = ask("page through it until you find the walrus", tmp_path)
    assert "“here a Walrus sits”" in answer


def test_it_is_the_file_of_the_request_before(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\nthe walrus\n")
    (tmp_path / "a.txt").write_text("a walrus elsewhere\n")
    answer, workspace = ask(
        "page through it until you find the walrus", tmp_path, earlier="Open notes.txt"
    )
    assert "In notes.txt, line 2, it says: “the walrus”" in answer
    assert workspace.asked_of("search_files") == [{"query": "walrus"}]


def test_nothing_found_is_not_claimed_of_what_was_not_searched(tmp_path: Path) -> None:
    (tmp_path / "picture.bin").write_bytes(b"\0\1\2")
    answer, _ = ask('find "unicorn"', tmp_path)
    assert "The search left out 1 file (1 binary)." in answer
    assert NEEDS_A_MODEL in answer


def test_without_evidence_read_a_part_is_called_a_part(tmp_path: Path) -> None:
    big(tmp_path, "SECRET-TOKEN")
    answer = run('Find "SECRET-TOKEN" in big.log', Folder(tmp_path), TOOLS)
    assert "big.log was shown only in part." in answer
    assert "larger than 2097152 bytes" in answer


def test_all_matches_are_written_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("ok\ndisk full on sda\n")
    (tmp_path / "b.log").write_text("Disk full again\n")
    answer, _ = ask('Search for "disk full" and write the result to report.md', tmp_path)
    written = (tmp_path / "report.md").read_text()
    assert written == "a.log:2: disk full on sda\nb.log:1: Disk full again\n"
    assert "I wrote report.md: 2 matches for “disk full”" in answer


@pytest.mark.parametrize("count", [150, 250])
def test_a_long_search_is_written_to_its_end_or_says_that_it_was_cut(
    tmp_path: Path, count: int
) -> None:
    lines = [f"disk full, number {number}, {'x' * 60}" for number in range(count)]
    (tmp_path / "a.log").write_text("\n".join(lines))
    answer, _ = ask('Search for "disk full" and write the result to report.md', tmp_path)
    written = (tmp_path / "report.md").read_text().splitlines()
    assert written[149].startswith("a.log:150: disk full, number 149,")
    is_cut = count > 200
    assert (len(written), "The search was cut" in written[-1]) == (min(count, 200) + is_cut, is_cut)
    assert ("The search was cut" in answer) is is_cut


def test_named_files_are_read_together_and_compared(tmp_path: Path) -> None:
    (tmp_path / "plan-a.md").write_text("# Plan\nBuy two disks.\nThe end\n")
    (tmp_path / "plan-b.md").write_text("# Plan\nRent a server.\nThe end\n")
    answer, workspace = ask("Compare plan-a.md with plan-b.md. What differs?", tmp_path)
    assert workspace.asked[:2] == [
        ("read_file", {"path": "plan-a.md"}),
        ("read_file", {"path": "plan-b.md"}),
    ]
    assert "plan-a.md says: “# Plan\nBuy two disks.\nThe end”" in answer
    assert "Only in plan-a.md:\n  2: Buy two disks.\nOnly in plan-b.md:\n  2: Rent a s" in answer
    assert "what the differences mean I cannot say" in answer


def test_long_files_are_compared_to_their_ends_and_differences_written(tmp_path: Path) -> None:
    lines = [f"line {number} \\ “and” more" for number in range(2000)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    (tmp_path / "b.txt").write_text("\n".join([*lines[:1990], "new", *lines[1990:]]))
    ask("Compare a.txt and b.txt and write the differences to diff.md", tmp_path)
    assert (
        "Only in a.txt:\n  nothing\nOnly in b.txt:\n  1991: new\n"
        in (tmp_path / "diff.md").read_text()
    )


def test_a_listed_file_without_a_dot_is_read_when_named(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all: build\n")
    answer, _ = ask("What does Makefile say?", tmp_path)
    assert "“all: build”" in answer


def test_what_a_script_cannot_do_with_a_file_it_says_first(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\ntwo\n")
    answer, _ = ask("Count the lines in a.md", tmp_path)
    assert answer.startswith(f"{INTRO} I am a script; I cannot count the lines in a.md.")
    assert "“one\ntwo”" in answer


def test_what_was_found_elsewhere_is_not_said_of_the_named_file(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("nothing\n")
    (tmp_path / "b.md").write_text("a walrus\n")
    answer, _ = ask("What does a.md say about a walrus?", tmp_path)
    assert "“walrus” is not in a.md. In b.md, line 1, it says: “a walrus”" in answer


def test_a_named_file_that_is_missing_is_said_to_be(tmp_path: Path) -> None:
    answer, _ = ask("Read gone.md", tmp_path)
    assert "read_file of gone.md failed" in answer


@pytest.mark.parametrize(
    "request_text",
    ["Write a haiku about autumn into poem.txt", 'Write a haiku about "autumn" into poem.txt',
     "Summarise a.md and save the summary to poem.txt", "Create a new file called poem.txt"],
)  # fmt: skip
def test_what_a_script_cannot_write_it_does_not_write(tmp_path: Path, request_text: str) -> None:
    (tmp_path / "a.md").write_text("autumn\n")
    answer, workspace = ask(request_text, tmp_path)
    assert answer.startswith(f"{INTRO} I am a script; I cannot ")
    assert "I wrote nothing to poem.txt" in answer
    assert NEEDS_A_MODEL in answer
    assert not workspace.asked


def test_the_next_longest_words_are_tried_together(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("the lease ends\n")
    answer, workspace = ask("Which file explains what happens when leases expire, lease", tmp_path)
    asked = [given["query"] for given in workspace.asked_of("search_files")]
    assert asked == ["leases", "expire", "lease"]
    assert "found nothing for “leases”, “expire”; I looked for “lease” then" in answer
    assert "“the lease ends”" in answer


def test_words_are_chosen_without_commands_and_common_words() -> None:
    wish = wish_of(
        "Which file explains what happens when a worker dies? Compare notes.md", "", may_write=True
    )
    assert wish.words == ("worker", "dies")
    assert wish.files == ("notes.md",)


def test_quotations_are_whole_sentences_of_wrapped_prose() -> None:
    lines = [
        "An introduction. Every step is kept in the database before it has any",
        "consequences, and a lost worker is replaced. Another sentence follows here",
    ]
    wanted = "Every step is kept in the database before it has any consequences, and a lost worker"
    assert quoted("a.md", lines, 1, "lost worker") == f"{wanted} is replaced."
    assert quoted("a.log", lines, 1, "lost worker") == lines[1]


def test_lines_of_code_in_prose_stand_for_themselves() -> None:
    lines = ["```", "x" * 70, "y needle", "```"]
    assert quoted("a.md", lines, 2, "needle") == "y needle"


def test_what_is_left_out_of_a_quotation_is_marked() -> None:
    text = f"{'before ' * 60}needle{' after' * 60}"
    short = shortened(text, "needle")
    assert short.startswith("…before")
    assert short.endswith("after…")
    assert "needle" in short
    assert len(short) <= 302
    assert json.dumps(shortened("whole")) == '"whole"'
