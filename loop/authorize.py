"""Who may do what: one question, asked at admission, decision, dispatch and delivery.

| rule about | `ask` | `deny` |
| --- | --- | --- |
| the tenant | every change is asked about | freeze: no change |
| a user | every change of their runs is asked about | revoked: their runs do and tell nothing |
| a tool | its owner is asked before it changes something | switched off, whatever its effect |
| a target | a change of it is asked about | protected: no change of it |

`allow` takes back what was said before about the same thing, and nothing else.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, assert_never

from loop.policy import PermissionMode
from umbel.names import PERMISSIONS, Effect, Permission, RuleScope


@dataclass(frozen=True, slots=True)
class Rule:
    """What is said about one thing, whatever the mode of a run."""

    scope: RuleScope
    name: str
    """Of the user, tool or target (see `covers`); empty for the tenant."""
    permission: Permission


@dataclass(frozen=True, slots=True)
class Act:
    """What a run is about to do."""

    user: str
    """Whose run it is."""
    tool: str | None = None
    """None: nothing is called; the run is accepted, or its answer delivered."""
    effect: Effect | None = None
    """None: the tool does not say, and so it changes something."""
    targets: tuple[str, ...] = ()
    """What it changes, each as `umbel.target_name` writes it."""

    @property
    def is_change(self) -> bool:
        """Whether something outside may be different afterwards."""
        return self.tool is not None and self.effect != "read"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What comes of an act, and what it rests on, as a sentence."""

    permission: Permission
    why: str = ""


ALLOWED: Final = Ruling("allow")


def authorize(act: Act, mode: PermissionMode, rules: Iterable[Rule]) -> Ruling:
    """The strictest of the run's mode and of every rule that fits: a further rule never widens."""
    found = [_by_mode(act, mode), *(_by_rule(act, rule) for rule in rules)]
    return max(found, key=lambda ruling: PERMISSIONS.index(ruling.permission))


def covers(name: str, target: str) -> bool:
    """Whether a rule about `name` is about `target`.

    It is about the name itself and what lies below it, `/` by `/`; one that ends in `*`, about
    everything that begins so.
    """
    if name.endswith("*"):
        return target.startswith(name[:-1])
    return target == name or target.startswith(f"{name.rstrip('/')}/")


def _by_mode(act: Act, mode: PermissionMode) -> Ruling:
    if mode != "full_access" and act.is_change:
        return Ruling("ask", "This run asks its owner before every change.")
    return ALLOWED


def _by_rule(act: Act, rule: Rule) -> Ruling:
    if rule.permission == "allow" or not _fits(act, rule):
        return ALLOWED
    return Ruling(rule.permission, _WHY[rule.scope, rule.permission].format(name=repr(rule.name)))


def _fits(act: Act, rule: Rule) -> bool:
    """Whether the rule is about this act; a user or tool may be denied more than changes."""
    match rule.scope:
        case "tenant":
            return act.is_change
        case "target":
            return act.is_change and any(covers(rule.name, target) for target in act.targets)
        case "user" | "tool":
            named = act.user if rule.scope == "user" else act.tool
            return rule.name == named and (rule.permission == "deny" or act.is_change)
        case _:
            assert_never(rule.scope)


_WHY: Final[dict[tuple[RuleScope, Permission], str]] = {
    ("tenant", "ask"): "Every change is asked about at present.",
    ("tenant", "deny"): "All changes are frozen at present.",
    ("user", "ask"): "Changes in runs of user {name} are asked about.",
    ("user", "deny"): "The access of user {name}, whose run this is, was withdrawn.",
    ("tool", "ask"): "The tool {name} is asked about before it changes something.",
    ("tool", "deny"): "The tool {name} is switched off.",
    ("target", "ask"): "{name} is changed only with its owner's approval.",
    ("target", "deny"): "{name} is protected and is not changed.",
}
