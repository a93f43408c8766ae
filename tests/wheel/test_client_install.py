"""A service installs the client: nothing it did not ask for may land in its environment."""

import zipfile
from pathlib import Path

from tests.wheel.conftest import GENERIC_NAMES, Environment

SERVER_LIBRARIES = ("sqlalchemy", "psycopg", "openai", "alembic")


def test_the_wheel_exposes_umbel_alone_and_carries_the_server_inside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"umbel"}
    bundled = {name.split("/")[2] for name in names if name.startswith("umbel/server-packages/")}
    assert bundled == set(GENERIC_NAMES[:8])
    assert "umbel/py.typed" in names
    assert "umbel/server-packages/migrations/env.py" in names


def test_importing_the_client_needs_and_loads_none_of_the_server(
    client_only: Environment, tmp_path: Path
) -> None:
    program = f"""
import sys, importlib.util
import umbel
loaded = [name for name in {SERVER_LIBRARIES + GENERIC_NAMES!r} if name in sys.modules]
found = [name for name in {SERVER_LIBRARIES + GENERIC_NAMES!r} if importlib.util.find_spec(name)]
print(loaded, found)
"""
    assert client_only.says(program, tmp_path) == "[] []"


def test_importing_the_client_loads_no_server_library_that_is_installed(
    with_server: Environment, tmp_path: Path
) -> None:
    program = f"""
import sys
import umbel
print([name for name in {SERVER_LIBRARIES + GENERIC_NAMES!r} if name in sys.modules])
"""
    assert with_server.says(program, tmp_path) == "[]"


def test_what_celery_needs_to_reach_redis_is_a_dependency(
    client_only: Environment, tmp_path: Path
) -> None:
    # `pip install celery redis` alone fails here: "No module named 'packaging'".
    program = "import celery.bin.celery, kombu.transport.redis; print('ok')"
    assert client_only.says(program, tmp_path) == "ok"


def test_the_names_of_our_packages_stay_the_services_own(
    client_only: Environment, service_folder: Path
) -> None:
    program = "import umbel, tools, models; print(tools.mine, models.mine)"
    assert client_only.says(program, service_folder) == "True True"


def test_starting_the_server_from_a_client_install_names_the_extra(
    client_only: Environment, tmp_path: Path
) -> None:
    result = client_only.run("import umbel.server", tmp_path)
    assert result.returncode == 2
    assert 'pip install "umbel[server]"' in result.stderr
    assert "Traceback" not in result.stderr
