"""`umbel sources`: who rests on a changed source is named, and told once."""

import json

import pytest

from models.database import Database
from tests.models.source_story import NOTES, after_reading
from tests.models.story import run_row
from umbel.cli.sources import notice_command
from umbel.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("own_settings")


def test_a_change_names_the_runs_that_look_at_it_and_the_same_again_is_no_news(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run = after_reading(database)
    assert notice_command(NOTES, None, revision="2", is_json=True) == 0
    assert json.loads(capsys.readouterr().out) == {
        "type": "source.changed",
        "source": NOTES,
        "is_new": True,
        "run_ids": [run.run_id],
    }
    assert notice_command(NOTES, None, revision="1", is_json=False) == 0
    said = capsys.readouterr().out
    assert "no news" in said
    assert "none at work" in said
    assert run_row(database, run.run_id)["source_rev"] == 1


def test_a_deletion_is_said_in_words(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run = after_reading(database)
    assert notice_command(NOTES, None, revision=None, is_deleted=True, is_json=False) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"deleted    {NOTES}: noted")
    assert run.run_id in said


def test_what_names_no_source_is_refused_with_an_example() -> None:
    with pytest.raises(InvalidInput, match="KIND:ID"):
        notice_command("notes.md", None, revision=None, is_json=False)
