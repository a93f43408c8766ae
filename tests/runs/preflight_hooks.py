"""Preflight hooks for real step workers."""

from umbel.preflight import Asked, Cleared, Denied, PlannedCall, Verdict


def by_id(call: PlannedCall) -> Verdict:
    """Judge a call by its id: `denied`, `asked`, `raises`, or anything else."""
    match call.arguments.get("id"):
        case "denied":
            return Denied("at_night", "Not at night.")
        case "asked":
            return Asked(call.arguments_text)
        case "raises":
            raise RuntimeError("the check is broken")
        case _:
            return Cleared(call.arguments_text)
