import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_umbel_run import clean_environment
from umbel.agent_settings import AgentSettings
from umbel.cli import exits
from umbel.cli.moments import Moment, Progress
from umbel.cli.run_command import RunCommand, RunOptions
from umbel.errors import Rejected
from umbel.settings import Settings

ENDPOINT = "http://127.0.0.1:1/v1"


class Recorder:
    """Remembers every moment."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []

    def show(self, moment: Moment) -> None:
        self.moments.append(moment)

    def texts(self, topic: str) -> list[str]:
        return [x.text for x in self.moments if isinstance(x, Progress) and x.topic == topic]


def refused(settings: Settings, folder: Path, request: str = "x", agent: str = "default") -> str:
    screen = Recorder()
    options = RunOptions(request, agent, None, folder, keep=False, began=0.0)
    with pytest.raises(Rejected) as caught:
        RunCommand(settings, options, screen).carry_out()
    assert screen.texts("servers") == []
    return str(caught.value)


@pytest.mark.parametrize(
    ("request_", "said"), [(" \n", "input is empty"), ("x" * 300_000, "the limit is")]
)
def test_a_request_that_cannot_be_stored_starts_nothing(
    tmp_path: Path, request_: str, said: str
) -> None:
    assert said in refused(Settings(), tmp_path, request_)


def test_an_unknown_agent_starts_nothing(tmp_path: Path) -> None:
    assert "'ops' is not configured" in refused(Settings(), tmp_path, agent="ops")


def test_tools_that_are_not_there_start_nothing(tmp_path: Path) -> None:
    settings = Settings(agents={"default": AgentSettings(tools=("fly",))})
    assert "['fly'] are not registered" in refused(settings, tmp_path)
    assert "module 'no_such_module'" in refused(Settings(tools=("no_such_module",)), tmp_path)


def test_an_endpoint_without_model_or_openai_without_key_starts_nothing(tmp_path: Path) -> None:
    assert "set UMBEL_MODEL" in refused(Settings(model_base_url=ENDPOINT), tmp_path)
    keyless = Settings(model_base_url="https://api.openai.com/v1", model="m")
    assert "set OPENAI_API_KEY" in refused(keyless, tmp_path)


def test_a_permission_that_does_not_apply_is_said(tmp_path: Path) -> None:
    def workspace_line(agent: AgentSettings) -> str:
        screen = Recorder()
        settings = Settings(model_base_url=ENDPOINT, agents={"default": agent})
        options = RunOptions("x", "default", None, tmp_path, keep=False, began=0.0)
        with pytest.raises(Rejected):
            RunCommand(settings, options, screen).carry_out()
        [line] = screen.texts("workspace")
        return line

    said = "this agent's own permission 'ask' does not apply to umbel run"
    assert said in workspace_line(AgentSettings(permission="ask"))
    assert said not in workspace_line(AgentSettings())
    assert said not in workspace_line(AgentSettings(permission="full_access"))


def test_binary_input_is_said_to_be_no_text_also_in_json(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "umbel.cli", "run", "-", "--json"],
        input=b"\x89PNG\xff",
        env=clean_environment(),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert shown.returncode == exits.USAGE
    assert b"Standard input is not UTF-8 text: byte 1 is 0x89" in shown.stderr
    last = json.loads(io.BytesIO(shown.stdout).readlines()[-1])
    assert (last["type"], last["exit_code"]) == ("error", exits.USAGE)
