import re
import tomllib
from pathlib import Path

from umbel.agent_settings import AgentSettings, ModelSettings
from umbel.settings import Settings
from umbel.settings_sources import FILE_ONLY, variable_of

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
ROW = re.compile(r"^\| `(UMBEL_\w+)` \| (?:`([^`]*)`)?", re.MULTILINE)


def test_every_setting_has_a_row_and_every_row_a_setting() -> None:
    documented = {name for name, _ in ROW.findall(DOCUMENT.read_text())}
    assert documented == {
        variable_of(name) for name in Settings.model_fields if name not in FILE_ONLY
    }


def test_documented_defaults_are_the_defaults() -> None:
    defaults = {
        variable_of(name): field.default
        for name, field in Settings.model_fields.items()
        if isinstance(field.default, int | float | str)
    }
    documented = {name: value for name, value in ROW.findall(DOCUMENT.read_text()) if value}
    assert set(documented) == set(defaults)
    for name, value in documented.items():
        default = defaults[name]
        written = f"{default:g}" if isinstance(default, float) else str(default)
        assert value.lower() == written.lower(), name


def test_the_examples_are_complete_and_valid() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    shown = tomllib.loads("\n".join(blocks))
    assert set(shown["agents"]["editor"]) == set(AgentSettings.model_fields)
    assert set(shown["models"]["gpt-5-mini"]) == set(ModelSettings.model_fields)
    Settings(agents=shown["agents"], models=shown["models"])
