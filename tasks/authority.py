"""Where the one question of `loop.authorize` is asked: admission, decision, dispatch, delivery.

Each time anew, with what counts then. A change is judged once more by its own intent: it passes
only while nothing has been said since it was judged here.
"""

from loop.authorize import Act, authorize
from loop.outcome import Refused
from loop.policy import PermissionMode
from models.authority import NOTHING_SAID, Authority, read_authority
from models.calls import CallRow
from models.database import Database
from models.records import RunSpec
from models.steps import Claim
from tasks.persisting import persist
from tools.result import error_text
from tools.targets import targets_of
from umbel.contracts import Principal
from umbel.errors import NotPermitted
from umbel.preflight import Asked, Cleared, Denied, PlannedCall, PreflightHook, Verdict
from umbel.strict_json import parse


def admit(database: Database, principal: Principal) -> None:
    """Let a request in.

    Raises:
        NotPermitted: the principal's access was withdrawn.
    """
    if (why := why_denied(database, principal)) is not None:
        raise NotPermitted(why)


def why_denied(database: Database, principal: Principal) -> str | None:
    """Why nothing more may be done for somebody, or told to them; None: it may."""
    return _why_denied(read_authority(database, principal.tenant), principal.user)


def permission_check(database: Database, claim: Claim, spec: RunSpec) -> PreflightHook | str:
    """The preflight hook by which calls of a step are denied or asked about.

    Text says why none is judged: the access of the run's owner was withdrawn.
    """
    authority = persist(lambda: read_authority(database, claim.tenant))
    if (why := _why_denied(authority, claim.owner)) is not None:
        return why
    mode: PermissionMode = "ask" if claim.owner_must_approve else spec.policy.permission_mode
    return judging(claim.owner, mode, authority)


def _why_denied(authority: Authority, user: str) -> str | None:
    ruling = authorize(Act(user), "full_access", authority.rules)
    return ruling.why if ruling.permission == "deny" else None


def judging(owner: str, mode: PermissionMode, authority: Authority = NOTHING_SAID) -> PreflightHook:
    """A preflight hook for runs of `owner`."""

    def check(call: PlannedCall) -> Verdict:
        act = Act(owner, call.name, call.effect, call.targets)
        ruling = authorize(act, mode, authority.rules)
        match ruling.permission:
            case "allow":
                return Cleared(call.arguments_text)
            case "ask":
                return Asked(call.arguments_text)
            case "deny":
                return Denied("not_permitted", f"{ruling.why} Nothing was done.")

    return check


def refusal_of(call: CallRow, spec: RunSpec) -> Refused | None:
    """Why a call may not start after all, by what counts at its dispatch; None: it may.

    What is asked about only since it was decided upon is refused: asked for again, it waits for its
    owner.
    """
    arguments = parse(call.args_text)
    named = (spec.tool(call.tool) or {}).get("targets")
    targets = targets_of(arguments, named) if isinstance(arguments, dict) else ()
    act = Act(call.owner, call.tool, call.effect, targets)
    ruling = authorize(act, spec.policy.permission_mode, call.authority.rules)
    if ruling.permission == "deny":
        return Refused(error_text("not_permitted", f"{ruling.why} It was not started."))
    if ruling.permission == "ask" and not call.needs_approval:
        message = f"{ruling.why} It was not started: ask for it again, and its owner is asked."
        return Refused(error_text("approval_required", message))
    return None
