"""What workers answer to whoever asks at the broker: Flower's worker page, `celery inspect`.

Celery 5.7 tells arguments as they are, and with a unix socket or several brokers also their
password (celery #9563).
"""

import functools
from collections.abc import Mapping
from typing import Any

from celery.worker.control import Panel
from celery.worker.request import Request
from kombu.utils.url import maybe_sanitize_url


class QuietRequest(Request):
    """A request that tells others of its arguments only what the sender made to be shown."""

    def info(self, safe: bool = False) -> Any:  # noqa: ARG002, FBT001, FBT002 - Celery's own form
        """As Celery tells it to those who know that arguments are private."""
        return super().info(safe=True)


def install_inspect_guard() -> None:
    """Let no answer of this process hold the password of the broker; repeating it is harmless."""
    original = Panel.data["stats"]
    if getattr(original, "is_umbel_guard", False):
        return

    @functools.wraps(original)
    def stats(state: Any) -> dict[str, Any]:
        return _without_passwords(original(state))

    stats.is_umbel_guard = True  # type: ignore[attr-defined]  # a mark for the next installation
    Panel.data["stats"] = stats


def _without_passwords(told: Mapping[str, Any]) -> dict[str, Any]:
    broker = told.get("broker")
    if not isinstance(broker, Mapping):
        return dict(told)
    cleaned = {
        **broker,
        "hostname": maybe_sanitize_url(broker.get("hostname") or ""),
        "alternates": [maybe_sanitize_url(url) for url in broker.get("alternates") or ()],
    }
    return {**told, "broker": cleaned}
