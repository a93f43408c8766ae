"""A system that seems to run on a directory: its lock is held and its note is there."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from umbel.cli.running_system import RunningSystem, announced
from umbel.embedded.locks import OWNER_LOCK, try_lock


@contextmanager
def running_system(
    data: Path,
    *,
    database_url: str = "",
    redis_url: str = "",
    redis_prefix: str = "umbel",
    model: str | None = None,
    model_base_url: str | None = None,
    has_own_servers: bool = True,
) -> Generator[RunningSystem]:
    """Announce it for the block, with this process's number and without Flower and metrics."""
    data.mkdir(parents=True, exist_ok=True)
    held = try_lock(data / OWNER_LOCK)
    assert held is not None
    os.pwrite(held, f"{os.getpid()}\n".encode(), 0)
    system = RunningSystem(
        pid=os.getpid(),
        database_url=database_url,
        has_own_database=has_own_servers,
        redis_url=redis_url,
        has_own_redis=has_own_servers,
        redis_prefix=redis_prefix,
        tenant="acme",
        model=model,
        model_base_url=model_base_url,
        metrics_address=None,
        flower_address=None,
        flower_auth=None,
    )
    try:
        with announced(data, system):
            yield system
    finally:
        os.close(held)
