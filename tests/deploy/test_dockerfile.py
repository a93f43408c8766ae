"""The image: made of the wheel, without a compiler, a secret or root."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.deploy.composition import ROOT, compose_services


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    joined = re.sub(r"\\\n\s*", "", text)
    parted = (line.partition(" ") for line in joined.splitlines())
    return [(word.upper(), rest) for word, _, rest in parted if word]


def last_stage() -> list[tuple[str, str]]:
    steps = instructions()
    start = max(index for index, (word, _) in enumerate(steps) if word == "FROM")
    return steps[start:]


def test_it_ends_as_a_user_without_rights_who_is_the_one_of_compose() -> None:
    users = [rest for word, rest in last_stage() if word == "USER"]
    assert users == ["10001:10001"]
    assert {compose_services()[name]["user"] for name in ("step", "migrate")} == set(users)


def test_it_carries_what_the_wheel_installed_and_no_source() -> None:
    copies = [rest for word, rest in last_stage() if word in ("COPY", "ADD")]
    assert copies == ["--from=installed /opt/umbel /opt/umbel"]
    runs = " ".join(rest for word, rest in instructions() if word == "RUN")
    assert "/wheels/umbel-*.whl)[web]" in runs
    assert "--only-binary :all:" in runs
    assert not re.search(r"apt-get|apk |gcc|build-essential|curl|wget", runs)


def test_it_holds_no_secret_and_takes_none() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert not re.search(r"(?i)password|api_key|secret|token", text)
    assert {rest.partition("=")[0] for word, rest in instructions() if word == "ARG"} == {
        "PYTHON",
        "VERSION",
    }


def test_commands_are_the_processes_own() -> None:
    words = [word for word, _ in last_stage()]
    assert "ENTRYPOINT" not in words
    assert ("HEALTHCHECK", "NONE") in last_stage()
    assert ("STOPSIGNAL", "SIGTERM") in last_stage()


def test_it_runs_the_python_that_is_tested_here() -> None:
    default = next(rest for word, rest in instructions() if word == "ARG")
    assert default == "PYTHON=3.11"
    assert 'requires-python = ">=3.11"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.slow
def test_the_wheel_builds_from_what_gets_past_dockerignore(tmp_path: Path) -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    allowed = [line[1:] for line in lines if line.startswith("!")]
    for name in allowed:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "out", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next((tmp_path / "out").glob("umbel-*.whl"))) as wheel:
        names = wheel.namelist()
    for package in ("tasks", "migrations", "models", "providers"):
        assert f"umbel/server-packages/{package}/__init__.py" in names
    assert "umbel/cli/alive.py" in names
