"""Flower: it shows ids and names of all work, so it must not be open."""

from typing import Final

import httpx2

from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding, ok, problem, warning, worst

_SECONDS: Final = 4.0
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1", "[::1]")
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "[::]": "[::1]"}  # noqa: S104 - named to warn of it
_CLOSED: Final = (301, 302, 303, 307, 401, 403)
"""A login page or a refusal."""


def look_at_flower(context: Context) -> Finding:
    """Whether it answers, and what it shows to somebody without a password."""
    address = context.settings.flower_address
    if address is None:
        return ok("flower", "off (UMBEL_FLOWER_ADDRESS=off)")
    host, _, port = address.rpartition(":")
    url = f"http://{_EVERYWHERE.get(host, host)}:{port}/"
    concerns = _exposure(host)
    try:
        with httpx2.Client(timeout=_SECONDS, trust_env=host not in _LOOPBACK) as client:
            response = client.get(url)
    except httpx2.HTTPError as error:
        said = str(error) or type(error).__name__
        remedy = "Start `umbel flower`, or set UMBEL_FLOWER_ADDRESS=off if you want none."
        return worst("flower", url, [warning("flower", f"not there: {said}", remedy), *concerns])
    if response.status_code in _CLOSED:
        return worst("flower", f"{url} asks for a password", concerns, status=response.status_code)
    if response.status_code == 200 and "flower" in response.text.lower():
        remedy = (
            "Stop it; set UMBEL_FLOWER_AUTH=user:password and start it with `umbel flower`, or "
            "give `celery flower` --basic-auth."
        )
        opened = problem("flower", "Flower is open: it answers without a password", remedy)
        return worst("flower", url, [opened, *concerns], status=200)
    remedy = "Set UMBEL_FLOWER_ADDRESS to the address of Flower, or to off."
    other = warning("flower", f"answers {response.status_code} and is no Flower", remedy)
    return worst("flower", url, [other], status=response.status_code)


def _exposure(host: str) -> list[Finding]:
    if host in _LOOPBACK:
        return []
    remedy = (
        "Set UMBEL_FLOWER_ADDRESS to 127.0.0.1 and put a proxy with TLS before it: passwords "
        "travel readable, and /metrics and /healthcheck never ask for one."
    )
    return [warning("flower", "other machines reach it", remedy)]
