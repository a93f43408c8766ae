"""Its test: the same checks as in production, no server needed."""

from pathlib import Path

import pytest

import umbel
from umbel.testing import call_tool
from word_count_tool import word_count


def test_words_are_counted(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("one two three")
    assert call_tool(word_count, workspace=tmp_path, path="note.txt") == {"words": 3}


def test_a_file_that_is_not_there_is_an_error_for_the_model(tmp_path: Path) -> None:
    with pytest.raises(umbel.ToolFailed, match=r"There is no 'gone\.txt'"):
        call_tool(word_count, workspace=tmp_path, path="gone.txt")
