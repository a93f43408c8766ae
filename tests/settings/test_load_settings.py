from collections.abc import Callable
from pathlib import Path

import pytest

from umbel.errors import Misconfigured
from umbel.settings import Settings, load_settings

LoadFile = Callable[[str], Settings]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def load_file(tmp_path: Path) -> LoadFile:
    def load(text: str) -> Settings:
        (tmp_path / "umbel.toml").write_text(text, encoding="utf-8")
        return load_settings({})

    return load


def faults_of(environment: dict[str, str]) -> list[str]:
    with pytest.raises(Misconfigured) as caught:
        load_settings(environment)
    return str(caught.value).splitlines()[1:]


def test_nothing_set_gives_the_documented_defaults() -> None:
    settings = load_settings({})
    assert settings.database_url is None
    assert settings.redis_prefix == "umbel"
    assert settings.dead_after_seconds == 15
    assert settings.step_concurrency == 100
    assert settings.tool_concurrency >= 8
    assert settings.stream_first_event_seconds == 600
    assert settings.agent("default").permission == "ask"
    assert settings.agent("default").profile == "steward"
    assert settings.agent("default").tools is None
    assert settings.model_settings("anything").window == 32_000
    assert settings.model_settings("anything").price_input_per_million is None


def test_an_argument_wins_over_the_environment_and_that_over_the_file(
    load_file: LoadFile,
) -> None:
    load_file('tenant = "file"\nmodel = "file"\nuser = "file"\n')
    settings = load_settings({"UMBEL_MODEL": "env", "UMBEL_USER": "env"}, user="argument")
    assert (settings.tenant, settings.model, settings.user) == ("file", "env", "argument")
    origins = {name: origin for name, _, origin in settings.effective()}
    assert origins["tenant"] == "tenant in umbel.toml"
    assert origins["model"] == "UMBEL_MODEL"
    assert origins["user"] == "argument"
    assert origins["pool_size"] == "default"


def test_an_empty_variable_and_a_none_argument_count_as_not_set() -> None:
    settings = load_settings({"UMBEL_MODEL": "", "OPENAI_API_KEY": ""}, model=None)
    assert settings.model is None
    assert settings.api_key is None


def test_our_api_key_wins_over_the_well_known_one() -> None:
    both = load_settings({"OPENAI_API_KEY": "theirs", "UMBEL_API_KEY": "ours"})
    assert both.api_key is not None
    assert both.api_key.get_secret_value() == "ours"
    one = load_settings({"OPENAI_API_KEY": "theirs"})
    assert one.api_key is not None
    assert one.api_key.get_secret_value() == "theirs"


def test_tools_are_comma_separated_in_the_environment_and_a_list_in_the_file(
    load_file: LoadFile,
) -> None:
    assert load_settings({"UMBEL_TOOLS": "acme_tools, more.tools,"}).tools == (
        "acme_tools",
        "more.tools",
    )
    assert load_file('tools = ["acme_tools"]').tools == ("acme_tools",)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("UMBEL_POOL_SIZE", "many", "a whole number, 1 or more"),
        ("UMBEL_POOL_SIZE", "0", "a whole number, 1 or more"),
        ("UMBEL_BEAT_SECONDS", "0", "a number of seconds above 0"),
        ("UMBEL_STREAM_SILENCE_SECONDS", "-1", "a number of seconds above 0"),
        ("UMBEL_STREAM_SILENCE_SECONDS", "0", "a number of seconds above 0"),
        ("UMBEL_STREAM_FIRST_EVENT_SECONDS", "soon", "a number of seconds above 0"),
        ("UMBEL_STREAM_PROGRESS_SECONDS", "nan", "finite number"),
        ("UMBEL_STREAM_PROGRESS_SECONDS", "inf", "finite number"),
        ("UMBEL_DEAD_AFTER_SECONDS", "8.9", "give 9 or more"),
        ("UMBEL_DEAD_AFTER_SECONDS", "8.9", "Allowed: a number of seconds, three times beat_secon"),
        ("UMBEL_DATABASE_URL", "mysql://h/x", "not PostgreSQL"),
        ("UMBEL_DATABASE_URL", "localhost", "not a URL"),
        ("UMBEL_REDIS_URL", "http://h", "redis://"),
        ("UMBEL_MODEL_BASE_URL", "localhost:8000/v1", "not an http address"),
        ("UMBEL_LOG_LEVEL", "loud", "'DEBUG', 'INFO'"),
        ("UMBEL_REDIS_PREFIX", "a b", "letters, digits"),
        ("UMBEL_TENANT", "{x}", "letters, digits"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(variable: str, value: str, said: str) -> None:
    [fault] = faults_of({variable: value})
    assert variable in fault
    assert repr(value) in fault
    assert said in fault


def test_all_faults_of_all_sources_come_in_one_message(tmp_path: Path) -> None:
    (tmp_path / "umbel.toml").write_text('pool_sise = 3\nsweep_seconds = "often"\n')
    faults = faults_of(
        {"UMBEL_MODLE": "x", "UMBEL_POOL_SIZE": "x", "UMBEL_DEAD_AFTER_SECONDS": "1"}
    )
    assert len(faults) == 5
    text = "\n".join(faults)
    for name in (
        "UMBEL_MODLE is not a setting of Umbel. Did you mean 'UMBEL_MODEL'?",
        "pool_sise in umbel.toml is unknown. Did you mean 'pool_size'?",
        "sweep_seconds in umbel.toml is 'often'",
        "UMBEL_POOL_SIZE is 'x'",
        "UMBEL_DEAD_AFTER_SECONDS is '1'",
    ):
        assert name in text


def test_dead_after_is_measured_against_the_beat_that_was_given() -> None:
    assert load_settings({"UMBEL_BEAT_SECONDS": "5"}).dead_after_seconds == 15
    [fault] = faults_of({"UMBEL_BEAT_SECONDS": "6"})
    assert "dead_after_seconds" in fault
    assert "give 18 or more" in fault


@pytest.mark.parametrize(
    "variable",
    [
        "UMBEL_CONFIG_NOTHING",
        "UMBEL_AGENTS",
        "UMBEL_MODELS",
        "UMBEL_FAULT",
        "UMBEL_",
    ],
)
def test_a_variable_that_nobody_reads_is_a_fault(variable: str) -> None:
    [fault] = faults_of({variable: "1"})
    assert variable in fault


def test_variables_of_tests_are_nobodys_business() -> None:
    load_settings(
        {
            "UMBEL_TEST_DATABASE_URL": "x",
            "UMBEL_TEST_BUILD": "1",
            "UMBEL_FAULTS": "x",
            "UMBEL_FAULT_HOOK": "x",
            "UMBEL_CASE_DIR": "x",
            "UMBRELLA": "x",
        }
    )


def test_a_named_file_must_exist_and_be_toml(tmp_path: Path) -> None:
    [missing] = faults_of({"UMBEL_CONFIG": "elsewhere.toml"})
    assert "'elsewhere.toml', which does not exist" in missing
    (tmp_path / "bad.toml").write_text("a = ")
    [not_toml] = faults_of({"UMBEL_CONFIG": "bad.toml"})
    assert "'bad.toml' is not TOML" in not_toml
    (tmp_path / "good.toml").write_text('tenant = "acme"')
    assert load_settings({"UMBEL_CONFIG": "good.toml"}).tenant == "acme"


def test_database_urls_of_every_common_spelling_reach_psycopg() -> None:
    for scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        settings = load_settings({"UMBEL_DATABASE_URL": f"{scheme}://u:p@h/d?sslmode=require"})
        assert settings.database_url == "postgresql+psycopg://u:p@h/d?sslmode=require"


def test_secrets_are_masked_wherever_settings_are_shown() -> None:
    settings = load_settings(
        {
            "UMBEL_DATABASE_URL": "postgresql://ann:hunter2@h/d",
            "UMBEL_REDIS_URL": "redis://:hunter2@h/0",
            "UMBEL_API_KEY": "hunter2",
        }
    )
    shown = repr(settings) + str(settings) + str(settings.effective())
    assert "hunter2" not in shown
    assert "ann:***@h/d" in shown


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("UMBEL_DATABASE_URL", "mysql://ann:hunter2@h/d"),
        ("UMBEL_DATABASE_URL", "mysql://ann:hunter2/with@odd@h/d"),
        ("UMBEL_REDIS_URL", "http://:hunter2@h"),
        ("UMBEL_REDIS_URL", "unix:?password=hunter2&db=1"),
        ("UMBEL_MODEL_BASE_URL", "ftp://ann:hunter2@h/v1"),
    ],
)
def test_no_fault_shows_a_password(variable: str, value: str) -> None:
    [fault] = faults_of({variable: value})
    assert variable in fault
    assert "hunter2" not in fault


def test_settings_cannot_be_changed() -> None:
    settings = load_settings({})
    with pytest.raises(ValueError, match="frozen"):
        settings.model = "other"  # type: ignore[misc]  # the point of the test
