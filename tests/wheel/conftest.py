"""The built wheel, installed the ways people install it. Built and installed once per session."""

import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
GENERIC_NAMES = (
    *("loop", "models", "migrations", "providers", "locks", "tools", "scheduler", "tasks"),
    *("api", "tests", "docs"),
)


@dataclass(frozen=True)
class Environment:
    """A virtual environment of its own."""

    python: Path
    site: Path

    def run(self, program: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
        """A Python program started in a folder, which is on its import path as usual."""
        command = [str(self.python), "-W", "error", "-c", program]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)

    def says(self, program: str, cwd: Path) -> str:
        """What a program that has to succeed prints."""
        result = self.run(program, cwd)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()


def make_environment(folder: Path, *, sees_our_libraries: bool) -> Environment:
    venv.create(folder, with_pip=False, symlinks=True)
    paths = sysconfig.get_paths(scheme="venv", vars={"base": str(folder), "platbase": str(folder)})
    site = Path(paths["purelib"])
    if sees_our_libraries:
        # A path in a .pth file is searched last, and the .pth files in it are not read: our own
        # editable install of Umbel stays invisible.
        (site / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return Environment(Path(paths["scripts"]) / "python", site)


def pip_install(environment: Environment, *arguments: str) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(environment.python), "install"]
    command = [*pip, "--quiet", "--no-compile", "--disable-pip-version-check", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    result = subprocess.run([*command, str(CHECKOUT)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return next(folder.glob("umbel-*.whl"))


@pytest.fixture(scope="session")
def client_only(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What `pip install umbel` gives a service that only enqueues runs."""
    environment = make_environment(tmp_path_factory.mktemp("client"), sees_our_libraries=False)
    pip_install(environment, "--only-binary", ":all:", str(wheel))
    return environment


@pytest.fixture(scope="session")
def with_server(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel, with the libraries of `umbel[server]`."""
    environment = make_environment(tmp_path_factory.mktemp("server"), sees_our_libraries=True)
    pip_install(environment, "--no-deps", str(wheel))
    return environment


@pytest.fixture
def service_folder(tmp_path: Path) -> Path:
    """The folder of a service that has modules with the names of our packages."""
    for name in ("tools", "models", "tasks"):
        (tmp_path / f"{name}.py").write_text("mine = True\n")
    return tmp_path
