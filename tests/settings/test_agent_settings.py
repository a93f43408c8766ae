from pathlib import Path

import pytest

from umbel.errors import Misconfigured
from umbel.settings import Settings, load_settings


def load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "agents.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings({"UMBEL_CONFIG": str(path)})


def fault_of(tmp_path: Path, text: str) -> str:
    with pytest.raises(Misconfigured) as caught:
        load(tmp_path, text)
    first, *faults = str(caught.value).splitlines()
    assert first == "One setting is wrong; nothing was started."
    assert len(faults) == 1
    return faults[0]


def test_an_agent_table_becomes_a_complete_policy(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
        [agents.ops]
        profile = "plain"
        model = "m4"
        instructions = "You look after servers."
        tools = ["list_files"]
        permission = "full_access"
        policy = { iteration_cap = 12, retry_base_seconds = 2 }
        """,
    )
    agent = settings.agent("ops")
    policy = agent.expand()
    assert agent.tools == ("list_files",)
    assert policy.iteration_cap == 12
    assert policy.retry_base_seconds == 2
    assert policy.empty_retries == 1  # of the profile
    assert policy.permission_mode == "full_access"


def test_the_default_agent_exists_beside_others_and_can_be_replaced(tmp_path: Path) -> None:
    settings = load(tmp_path, '[agents.ops]\nprofile = "plain"')
    assert set(settings.agents) == {"default", "ops"}
    replaced = load(tmp_path, '[agents.default]\nprofile = "plain"')
    assert replaced.agent("default").profile == "plain"


def test_an_unknown_agent_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Misconfigured, match=r"'ops' is not configured; there is default"):
        load_settings({}).agent("ops")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('profile = "stewart"', "choose one of steward, plain"),
        ('instrctions = "x"', "Did you mean 'instructions'?"),
        ('permission = "yolo"', "'full_access'"),
        ("policy = { iteration_cap = 0 }", "must be 1 or more"),
        ("policy = { iteration_cup = 3 }", "policy.iteration_cup in"),
        ("policy = { iteration_cup = 3 }", "Did you mean 'iteration_cap'?"),
        ('policy = "strict"', "'strict': not a table"),
        ('policy = { permission_mode = "full_access" }', "`permission`"),
        ('tools = "list_files"', "tools"),
        ('instructions = ""', "instructions"),
    ],
)
def test_a_wrong_agent_is_a_fault_that_names_its_table(
    tmp_path: Path, table: str, said: str
) -> None:
    fault = fault_of(tmp_path, f"[agents.ops]\n{table}")
    assert "agents.ops" in fault
    assert said in fault


def test_all_faults_of_a_table_come_at_once_under_their_own_names(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as caught:
        load(
            tmp_path,
            """
            beat_seconds = "soon"
            dead_after_seconds = 2

            [agents.editor]
            profil = "x"
            profile = "stewart"
            instrctions = "x"
            policy = { iteration_capp = 3, parallel = "many", tool_call_limit = -1 }
            """,
        )
    text = str(caught.value)
    for said in (
        "8 settings are wrong",
        "beat_seconds in",
        "is 'soon': not a number. Allowed: a number of seconds above 0.",
        "dead_after_seconds in",
        "agents.editor.profil in",
        "agents.editor.profile in",
        "is 'stewart': there is no such profile; choose one of steward, plain.",
        "is unknown. Did you mean 'instructions'?",
        "agents.editor.policy.iteration_capp in",
        "is unknown. Did you mean 'iteration_cap'?",
        "agents.editor.policy.parallel in",
        "is 'many': not a whole number.",
        "is -1: must be 0 or more.",
    ):
        assert said in text
    assert "{" not in text
    assert "nput should" not in text


def test_prices_are_data_and_missing_ones_stay_unknown(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
        [models."gpt-5-mini"]
        window = 400_000
        output_reserve = 16_000
        price_input_per_million = 0.25
        price_output_per_million = 2
        """,
    )
    model = settings.model_settings("gpt-5-mini")
    assert model.window == 400_000
    assert model.price_input_per_million == 0.25
    assert model.price_output_per_million == 2
    assert model.price_cached_input_per_million is None


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("window = 4096\noutput_reserve = 4096", "must be below window 4096"),
        ("price_input_per_million = -1", "must be 0 or more"),
        ("window = 4096\noutput_reserve = 4096", "models.m4 in"),
        ("windows = 4096", "Did you mean 'window'?"),
    ],
)
def test_a_wrong_model_is_a_fault_that_names_its_table(
    tmp_path: Path, table: str, said: str
) -> None:
    fault = fault_of(tmp_path, f"[models.m4]\n{table}")
    assert "models.m4" in fault
    assert said in fault
