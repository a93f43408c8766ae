"""The log of a process: where it goes, from which level on, and in which form."""

import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from billiard.util import get_logger as pool_logger
from pydantic import SecretStr

from tasks.log_setup import LogSetup, secrets_of
from umbel.settings import Settings


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    """Logging as it was before."""
    loggers = (logging.getLogger(), pool_logger())
    before = [(logger, logger.handlers[:], logger.level) for logger in loggers]
    yield
    for logger, handlers, level in before:
        for handler in set(logger.handlers) - set(handlers):
            handler.close()
        logger.handlers[:] = handlers
        logger.setLevel(level)
    logging.captureWarnings(capture=False)
    logging.raiseExceptions = True


def _logged(tmp_path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]


def test_everything_goes_through_one_handler_that_knows_the_secrets(tmp_path: Path) -> None:
    settings = Settings(
        database_url="postgresql://umbel:planted-password@db/umbel",
        api_key=SecretStr("planted-key-0001"),
        log_format="json",
    )
    setup = LogSetup(settings)
    for _ in range(2):  # Celery asks more than once
        setup.name_worker("step@host")
    setup.install(logging.INFO, str(tmp_path / "log"))
    logging.getLogger("a.b").info("with planted-password and %s", "planted-key-0001")
    pool_logger().error("child exited")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old way", UserWarning, stacklevel=1)
    first, second, third = _logged(tmp_path)

    assert first["message"] == "with *** and ***"
    assert first["process"] == "step@host"
    assert second["message"] == "child exited"
    assert (third["logger"], "old way" in str(third["message"])) == ("py.warnings", True)


def test_lines_below_the_level_are_left_out_whatever_a_library_sets(tmp_path: Path) -> None:
    LogSetup(Settings(log_format="json")).install(logging.WARNING, str(tmp_path / "log"))
    logging.getLogger().setLevel(logging.DEBUG)  # as Flower's web server does
    logging.getLogger("a").info("said")
    logging.getLogger("a").warning("meant")
    assert [line["message"] for line in _logged(tmp_path)] == ["meant"]


def test_text_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    LogSetup(Settings(log_format="text")).install(logging.INFO, str(tmp_path / "log"))
    logging.getLogger("a").info("run taken over", extra={"run_id": "run_1"})
    [line] = (tmp_path / "log").read_text().splitlines()
    assert line.endswith("INFO     run taken over  run_id=run_1")


@pytest.mark.parametrize(
    ("arguments", "level"), [(["--loglevel", "10"], logging.DEBUG), ([], logging.ERROR)]
)
def test_a_level_on_the_command_line_wins_over_the_setting(
    arguments: list[str], level: int
) -> None:
    option = click.Option(["--loglevel"], type=int, default=logging.WARNING)
    with click.Command("worker", params=[option]).make_context("worker", arguments) as context:
        found = LogSetup(Settings(log_level="ERROR")).level(context.params["loglevel"])
    assert found == level


def test_every_setting_that_is_or_holds_a_secret_is_known() -> None:
    settings = Settings(
        database_url="postgresql://u:of-database@h/d",
        redis_url="redis://:of-redis@h",
        model_base_url="http://u:of-endpoint@h/v1",
        api_key=SecretStr("of-model"),
        flower_auth=SecretStr("user:of-flower"),
    )
    known = secrets_of(settings, {"OPENAI_API_KEY": "of-environment"})
    wanted = ("database", "redis", "endpoint", "model", "flower", "environment")
    assert {f"of-{name}" for name in wanted} <= set(known)
