"""What Flower's log says about workers that do not answer."""

import asyncio
import logging

import pytest

from tasks.app import broker_app
from tests.services import Place
from umbel.flower_server import ClosedFlower
from umbel.settings import load_settings


def test_a_question_is_only_warned_of_if_somebody_was_there_to_answer_it(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    inspector = logging.getLogger("flower.inspector")
    before = list(inspector.filters)
    try:
        nobody, somebody = asyncio.run(warnings_of_two_questions(place, caplog))
        assert nobody == 0, caplog.messages
        assert somebody >= 1
    finally:
        inspector.filters[:] = before


async def warnings_of_two_questions(
    place: Place, caplog: pytest.LogCaptureFixture
) -> tuple[int, int]:
    """How many warnings there are about nobody, and about a worker that was heard of."""
    settings = load_settings({}, redis_url=place.redis_url, redis_prefix=place.redis_prefix)
    app = broker_app(settings)
    flower = ClosedFlower(app, "ann:secret")
    flower.inspector.timeout = 0.3
    try:
        await flower.update_workers()
        nobody = warnings(caplog)
        flower.events.state.get_or_create_worker("step@elsewhere")
        await flower.update_workers()
        return nobody, warnings(caplog) - nobody
    finally:
        flower.executor.shutdown()
        app.close()


def warnings(caplog: pytest.LogCaptureFixture) -> int:
    """How many there are; Flower's own faults, such as those of its threads, are errors."""
    return sum(record.levelno == logging.WARNING for record in caplog.records)
