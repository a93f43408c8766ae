"""`umbel flower`: Flower with a password, on this machine only unless the settings say else."""

import ipaddress
from typing import Final

import typer

from tasks.app import broker_app
from tasks.log_setup import LogSetup
from umbel.cli import exits
from umbel.cli.ending import importing, say
from umbel.errors import Misconfigured
from umbel.settings import Settings, load_settings

_REMEDY: Final = "Set UMBEL_FLOWER_AUTH=user:password"


def flower_command() -> int:
    """Serve until Ctrl-C or SIGTERM."""
    settings = load_settings()
    auth = _required_auth(settings)
    host, port = _required_address(settings)
    app = broker_app(settings)
    LogSetup(settings).start("flower")
    # Not at the top: these libraries are slow to load, and the settings may be refused.
    with importing():
        from umbel.flower_server import ClosedFlower

    flower = ClosedFlower(app, auth)
    if not _is_loopback(host):
        say(
            f"Flower at {host} is seen by other machines: put a proxy with TLS before it, because "
            "the password travels readable, and fence /metrics and /healthcheck there, because "
            "they answer without one."
        )
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"Flower at http://{shown}:{port}, user {auth.partition(':')[0]}; Ctrl-C ends it.")
    flower.serve(host, port)
    return exits.COMPLETED


def _required_auth(settings: Settings) -> str:
    if settings.flower_auth is None:
        raise Misconfigured(
            f"Flower shows all work and is not started without a password. {_REMEDY}."
        )
    auth = settings.flower_auth.get_secret_value()
    if not auth.isascii():
        raise Misconfigured(
            f"UMBEL_FLOWER_AUTH has a character that browsers spell differently. {_REMEDY} with "
            "ASCII characters alone."
        )
    return auth


def _required_address(settings: Settings) -> tuple[str, int]:
    if settings.flower_address is None:
        raise Misconfigured(
            "UMBEL_FLOWER_ADDRESS is off. Set it to host:port such as 127.0.0.1:5555."
        )
    host, _, port = settings.flower_address.rpartition(":")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
