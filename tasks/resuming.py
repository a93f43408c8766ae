"""Other limits for a run that is resumed: a revision of its policy, checked as the first was."""

from collections.abc import Mapping

from pydantic import ValidationError

from loop.policy import LIMITS, Policy
from models.owner import OtherLimits
from models.records import RunSpec
from umbel.errors import InvalidInput
from umbel.settings_faults import compact
from umbel.strict_json import canonical


def other_limits(spec: RunSpec, wanted: Mapping[str, int | None]) -> OtherLimits | None:
    """The run's policy with these limits; None where they are what it has already.

    Raises:
        InvalidInput: one is no limit, or its value is none.
    """
    unknown = sorted(wanted.keys() - LIMITS)
    if unknown:
        raise InvalidInput(f"{unknown[0]!r} is no limit; known are {', '.join(sorted(LIMITS))}.")
    before = spec.policy.model_dump()
    try:
        after = Policy(**{**before, **wanted})
    except ValidationError as error:
        raise InvalidInput(f"The limits cannot be set: {compact(error)}") from error
    changes = {name: value for name, value in wanted.items() if before[name] != value}
    if not changes:
        return None
    policy = canonical(after.model_dump(mode="json"))
    return OtherLimits(policy, bytes.fromhex(spec.policy_sha), changes)
