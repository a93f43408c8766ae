import fakeredis
import pytest

from locks.ownership import OwnershipLocks
from models.database import Database
from scheduler.sweeper import Sweeper
from tests.models.story import DEAD_AFTER
from tests.scheduler.recording_bell import RecordingBell


@pytest.fixture
def locks() -> OwnershipLocks:
    return OwnershipLocks(fakeredis.FakeRedis(decode_responses=True), prefix="u", ttl_seconds=30)


@pytest.fixture
def bell() -> RecordingBell:
    return RecordingBell()


@pytest.fixture
def sweeper(database: Database, locks: OwnershipLocks, bell: RecordingBell) -> Sweeper:
    return Sweeper(database, locks, bell, dead_after_seconds=DEAD_AFTER, ring_after_seconds=60)
