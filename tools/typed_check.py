"""A preflight hook for what a JSON Schema cannot say, such as which texts are a date.

Without it the same fault is found when the tool is about to run: nothing is done then either, but
an owner may have been asked to approve a call that never could work.
"""

from tools.registry import ToolRegistry
from umbel.errors import InvalidInput
from umbel.preflight import Cleared, Denied, PlannedCall, Verdict


class TypedArgumentsCheck:
    """Denies calls whose arguments do not become the types of the tool's function."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry

    def __call__(self, call: PlannedCall) -> Verdict:
        """Cleared, too, for a tool this process does not have: the worker that runs it checks."""
        if call.name in self._registry:
            typed = self._registry.get(call.name).typed
            try:
                if typed is not None:
                    typed.parse(call.arguments_text)
            except InvalidInput as error:
                return Denied("invalid_arguments", f"{error}. Nothing was done; correct the call.")
        return Cleared(call.arguments_text)
