"""What is set, and where: the first thing to look at when a system does not do as it was told."""

from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding, ok


def look_at_settings(context: Context) -> Finding:
    """Every effective value with its origin; secrets are masked."""
    values = [
        {"name": name, "value": value, "origin": _origin(context, name, origin)}
        for name, value, origin in context.settings.effective()
    ]
    differing = [value for value in values if value["origin"] != "default"]
    places = sorted({_place(value["origin"]) for value in differing})
    found = f"{len(differing)} of {len(values)} differ from the defaults"
    if places:
        found += f", from {', '.join(places)}"
    return ok("settings", found, settings=values)


def _origin(context: Context, name: str, origin: str) -> str:
    if context.running is not None and hasattr(context.running, name):
        return "the system that runs here"
    return origin


def _place(origin: str) -> str:
    """`umbel.toml`, `the environment`, or what else it says."""
    if origin.isupper():
        return "the environment"
    return origin.rpartition(" in ")[2] or origin
