"""The server packages bind to Umbel's own files, wherever the process was started."""

import os
import threading
from pathlib import Path

import pytest

from tests.wheel.conftest import (
    CHECKOUT,
    GENERIC_NAMES,
    Environment,
    make_environment,
    pip_install,
)
from umbel.embedded import embedded_servers
from umbel.server_processes import ProcessSpec, ServerProcesses

_WORKER = """
import os, sys
os.chdir(sys.argv[1])
from celery.__main__ import main
pool = ["--pool", "prefork", "--concurrency", "1", "--queues", "umbel.control"]
sys.argv = ["celery", "-A", "umbel.server", "worker", *pool, "--loglevel", "INFO"]
main()
"""
BIND = "from umbel.server_path import bind_server_packages, server_root; bind_server_packages()\n"


def test_a_folder_with_modules_of_the_same_names_shadows_nothing(
    with_server: Environment, service_folder: Path
) -> None:
    program = BIND + (
        "import models, tools, tasks\n"
        "files = [module.__file__ for module in (models, tools, tasks)]\n"
        "print({file.startswith(str(server_root())) for file in files})"
    )
    assert with_server.says(program, service_folder) == "{True}"


def test_a_folder_that_celery_puts_first_again_shadows_nothing(
    with_server: Environment, service_folder: Path
) -> None:
    # celery #3150: the working directory comes back at sys.path[0] while modules are loaded.
    program = BIND + (
        "import os, sys\n"
        "sys.path.insert(0, os.getcwd())\n"
        "import tools, models.tables, tools.registry\n"
        "bind_server_packages()\n"
        "bind_server_packages()\n"
        "print(sys.path.index(str(server_root())), sys.path.count(str(server_root())))"
    )
    assert with_server.says(program, service_folder) == "0 1"


def test_a_worker_starts_in_a_folder_with_such_modules(
    with_server: Environment, service_folder: Path
) -> None:
    with embedded_servers() as servers:
        addresses = {
            "UMBEL_DATABASE_URL": servers.database_url,
            "UMBEL_REDIS_URL": servers.redis_url,
            "UMBEL_LOG_FORMAT": "text",
        }
        program = BIND + f"from models.migration import migrate; migrate({servers.database_url!r})"
        with_server.says(program, service_folder)
        spec = ProcessSpec(
            "worker",
            (str(with_server.python), "-c", _WORKER, str(service_folder)),
            {**os.environ, **addresses},
        )
        lines: list[str] = []
        news = threading.Event()

        def hear(_: str, line: str) -> None:
            lines.append(line)
            if line.rstrip().endswith(" ready."):
                news.set()

        with ServerProcesses(on_line=hear, on_end=lambda _: news.set()) as processes:
            processes.start(spec)
            assert news.wait(60), lines
            assert processes.dead() == [], lines


def test_a_spawned_child_binds_like_its_parent(
    with_server: Environment, service_folder: Path
) -> None:
    (service_folder / "start.py").write_text(
        BIND
        + "import multiprocessing, tools\n"
        + "def show(): print(tools.__file__.startswith(str(server_root())), flush=True)\n"
        + "if __name__ == '__main__':\n"
        + "    child = multiprocessing.get_context('spawn').Process(target=show)\n"
        + "    child.start(); child.join()\n"
    )
    program = "import runpy; runpy.run_path('start.py', run_name='__main__')"
    assert with_server.says(program, service_folder) == "True"


@pytest.mark.parametrize("kind", ["module", "namespace"])
def test_a_name_that_is_taken_already_is_refused_with_both_places(
    with_server: Environment, tmp_path: Path, kind: str
) -> None:
    if kind == "module":
        (tmp_path / "tools.py").write_text("")
        taken = tmp_path / "tools.py"
    else:
        (tmp_path / "tools").mkdir()
        taken = tmp_path / "tools"
    result = with_server.run("import tools\n" + BIND, tmp_path)
    error = result.stderr.splitlines()[-1]
    assert error.startswith("umbel.server_path.ShadowedPackageError")
    assert repr(str(taken)) in error
    assert "umbel/server-packages/tools'" in error
    assert "'acme_tools'" in error


def test_the_migrations_are_found_by_an_absolute_path(
    with_server: Environment, tmp_path: Path
) -> None:
    program = BIND + (
        "from alembic.config import Config\n"
        "from alembic.script import ScriptDirectory\n"
        "config = Config()\n"
        "config.set_main_option('script_location', str(server_root() / 'migrations'))\n"
        "print(len(ScriptDirectory.from_config(config).get_heads()))"
    )
    assert with_server.says(program, tmp_path) == "1"


def test_an_editable_install_copies_nothing(tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "environment", sees_our_libraries=True)
    pip_install(environment, "--no-deps", "--no-build-isolation", "--editable", str(CHECKOUT))
    names = {path.name for path in environment.site.iterdir()} - {"libraries.pth", "__pycache__"}
    assert {name for name in names if not name.endswith(".dist-info")} == {"_umbel.pth"}
    program = BIND + f"import sys; print(*(sys.modules[n].__file__ for n in {GENERIC_NAMES[:8]!r}))"
    places = environment.says(program, tmp_path).split()
    assert places == [str(CHECKOUT / name / "__init__.py") for name in GENERIC_NAMES[:8]]
