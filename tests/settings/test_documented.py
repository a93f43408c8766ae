import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from loop.policy import Policy
from umbel.agent_settings import AgentSettings, ModelSettings
from umbel.cli.reference import main, with_tables
from umbel.settings import Settings
from umbel.settings_sources import FILE_ONLY, variable_of

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_tables_are_what_the_code_says() -> None:
    text = DOCUMENT.read_text()
    assert text == with_tables(text), (
        "docs/configuration.md is stale: run `make docs` and commit it."
    )


def test_every_setting_has_a_row_and_every_row_a_setting() -> None:
    documented = set(re.findall(r"^\| `(UMBEL_\w+)` \|", DOCUMENT.read_text(), re.MULTILINE))
    assert documented == {
        variable_of(name) for name in Settings.model_fields if name not in FILE_ONLY
    }


@pytest.mark.parametrize("model", [Settings, AgentSettings, ModelSettings, Policy])
def test_every_field_says_what_it_means(model: type[BaseModel]) -> None:
    silent = [name for name, field in model.model_fields.items() if not field.description]
    assert [name for name in silent if name not in ("version", "permission_mode")] == []


def test_defaults_bounds_and_choices_are_shown_as_they_are_written() -> None:
    rows = with_tables("<!-- table settings -->\n<!-- end --><!-- table policy -->\n<!-- end -->")
    assert "| `UMBEL_POOL_SIZE` | `10` | a whole number, 1 or more |" in rows
    assert "| `UMBEL_LOG_FORMAT` | `auto` | `auto`, `json`, `text` |" in rows
    assert "| `UMBEL_TOOL_CONCURRENCY` | of this machine |" in rows
    assert "| `UMBEL_TRACES` | `false` | `true`, `false` |" in rows
    assert "| `parallel` | `8` | a whole number, 1 to 64 |" in rows
    assert "| `retry_base_seconds` | `2` | a number above 0 |" in rows
    assert "permission_mode" not in rows


def test_what_stands_outside_of_the_tables_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text("before\n<!-- table models -->\nstale\n<!-- end -->\nafter\n")
    assert main([str(document)]) == 0
    text = document.read_text()
    assert text.startswith("before\n<!-- table models -->\n| key | default |")
    assert text.endswith("|\n<!-- end -->\nafter\n")
    assert "stale" not in text


def test_the_examples_are_complete_and_valid() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    shown = tomllib.loads("\n".join(blocks))
    assert set(shown["agents"]["editor"]) == set(AgentSettings.model_fields)
    assert set(shown["models"]["gpt-5-mini"]) == set(ModelSettings.model_fields)
    Settings(agents=shown["agents"], models=shown["models"])
