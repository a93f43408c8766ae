"""The environment of the servers: fixed, so that no variable of the caller's changes them."""

import os


def server_environment() -> dict[str, str]:
    """C locale, UTC, and what the dynamic linker may need; no PG… variable, no secret."""
    fixed = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
    linker = {
        name: value for name in ("LD_LIBRARY_PATH",) if (value := os.environ.get(name)) is not None
    }
    return fixed | linker
