"""What every check is given: the settings in use, and the senses that a test may replace."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import make_url

from umbel.cli.running_system import RunningSystem
from umbel.settings import Settings


@dataclass(frozen=True, slots=True)
class Context:
    """One look at a system."""

    settings: Settings
    data: Path | None = None
    """The directory the caller named."""
    running: RunningSystem | None = None
    """The system whose addresses the settings carry."""
    statvfs: Callable[[str], os.statvfs_result] = os.statvfs
    clock: Callable[[], float] = time.time
    """Seconds since 1970, by this machine."""
    usable: dict[str, bool] = field(default_factory=dict[str, bool])
    """Parts that were looked at already, and whether others can rely on them."""

    @property
    def database_url(self) -> str:
        """Of a system whose `database` part is usable."""
        return self.settings.database_url or ""

    @property
    def redis_url(self) -> str:
        """Of a system whose `redis` part is usable."""
        return self.settings.redis_url or ""

    @property
    def is_database_here(self) -> bool:
        """PostgreSQL runs on this machine, as far as its address says."""
        url = make_url(self.database_url)
        host = url.host or str(url.query.get("host", ""))
        return host.startswith("/") or host in ("", "localhost", "127.0.0.1", "::1")

    def is_fresh(self, silent_seconds: float) -> bool:
        """A worker that beat so long ago counts as alive."""
        return silent_seconds <= self.settings.dead_after_seconds


def secrets_of(settings: Settings, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Everything that must never be shown, the longest first."""
    found = [
        secret.get_secret_value()
        for secret in (settings.api_key, settings.flower_auth)
        if secret is not None
    ]
    found += [environment.get(name, "") for name in ("OPENAI_API_KEY", "UMBEL_API_KEY")]
    if settings.flower_auth is not None:
        found.append(settings.flower_auth.get_secret_value().partition(":")[2])
    for url in (settings.database_url, settings.redis_url, settings.model_base_url):
        found += _passwords(url)
    return tuple(sorted({secret for secret in found if len(secret) > 3}, key=len, reverse=True))


def _passwords(url: str | None) -> list[str]:
    if url is None:
        return []
    parsed = make_url(url.replace(";", "%3B"))
    quoted = url.rpartition("@")[0].rpartition(":")[2]
    in_query = parsed.query.get("password", "")
    return [str(parsed.password or ""), str(in_query), quoted if parsed.password else ""]
