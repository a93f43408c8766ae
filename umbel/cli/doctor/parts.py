"""The parts in the order they are shown, and which of them need which."""

from typing import Final

from umbel.cli.doctor.broker_checks import look_at_beat, look_at_broker, look_at_queues
from umbel.cli.doctor.clock_check import look_at_clocks
from umbel.cli.doctor.database_checks import look_at_database, look_at_migrations
from umbel.cli.doctor.disk_check import look_at_disks
from umbel.cli.doctor.flower_check import look_at_flower
from umbel.cli.doctor.invariants_check import look_at_invariants
from umbel.cli.doctor.model_check import look_at_model
from umbel.cli.doctor.redis_check import look_at_redis
from umbel.cli.doctor.running import Check
from umbel.cli.doctor.settings_check import look_at_settings
from umbel.cli.doctor.tools_check import look_at_tools
from umbel.cli.doctor.work_checks import look_at_unknown, look_at_work, look_at_workers

CHECKS: Final = (
    Check("settings", look_at_settings),
    Check("database", look_at_database),
    Check("migrations", look_at_migrations, needs=("database",)),
    Check("redis", look_at_redis),
    Check("broker", look_at_broker, needs=("redis",)),
    Check("queues", look_at_queues, needs=("broker",), after=("migrations",)),
    Check("beat", look_at_beat, needs=("broker",), after=("database",)),
    Check("workers", look_at_workers, needs=("migrations",)),
    Check("clock", look_at_clocks, needs=("database",), after=("redis",)),
    Check("model", look_at_model),
    Check("tools", look_at_tools, after=("migrations",)),
    Check("disk", look_at_disks, after=("database",)),
    Check("flower", look_at_flower),
    Check("work", look_at_work, needs=("migrations",)),
    Check("unknown", look_at_unknown, needs=("migrations",)),
)
WITH_INVARIANTS: Final = (
    *CHECKS,
    Check("invariants", look_at_invariants, needs=("migrations",)),
)
