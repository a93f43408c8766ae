"""Which preflight hooks a process has: those of installed packages, then those that are named."""

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from tools.failure import failure_of
from umbel.errors import Misconfigured
from umbel.preflight import PreflightHook

ENTRY_POINT_GROUP: Final = "umbel.preflight"


def load_hooks(names: Sequence[str]) -> tuple[PreflightHook, ...]:
    """Hooks of the entry points `umbel.preflight`, by name, then those of `module:function` names.

    They are asked in this order. Importing runs their modules' code.

    Raises:
        Misconfigured: one of them cannot be loaded. A check that is missing is no check: nothing
            may start without it.
    """
    installed = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
    given = [EntryPoint(name, name, ENTRY_POINT_GROUP) for name in dict.fromkeys(names)]
    return tuple(_load(point) for point in (*installed, *given))


def _load(point: EntryPoint) -> PreflightHook:
    try:
        hook: PreflightHook = point.load()
    except (Exception, SystemExit) as error:  # a module's own code may raise anything
        raise _unusable(point, failure_of(error).message) from error
    if not callable(hook):
        raise _unusable(point, f"it is a {type(hook).__name__}, and no function")
    return hook


def _unusable(point: EntryPoint, why: str) -> Misconfigured:
    return Misconfigured(
        f"The preflight hook {point.value!r} cannot be used: {why}. Write it as module:function in "
        "UMBEL_PREFLIGHT, with the folder of the module on PYTHONPATH, or take it out."
    )
