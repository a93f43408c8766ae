"""Everything that may be asked of `authorize`, as a table and as properties."""

import itertools
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loop.authorize import Act, Rule, authorize, covers
from loop.policy import PermissionMode
from umbel.names import EFFECTS, PERMISSIONS, RULE_SCOPES, Effect, Permission, RuleScope

MODES: Final[tuple[PermissionMode, ...]] = ("full_access", "ask")
NAMES: Final[dict[RuleScope, str]] = {
    "tenant": "",
    "user": "ann",
    "tool": "pay",
    "target": "bank/7",
}
WANTED: Final[dict[tuple[RuleScope, Permission], tuple[str, str, str]]] = {
    # What comes of a read, of a change, and of a run that calls nothing; in full access.
    ("tenant", "ask"): ("allow", "ask", "allow"),
    ("tenant", "deny"): ("allow", "deny", "allow"),
    ("user", "ask"): ("allow", "ask", "allow"),
    ("user", "deny"): ("deny", "deny", "deny"),
    ("tool", "ask"): ("allow", "ask", "allow"),
    ("tool", "deny"): ("deny", "deny", "allow"),
    ("target", "ask"): ("allow", "ask", "allow"),
    ("target", "deny"): ("allow", "deny", "allow"),
}


def an_act(effect: Effect | None = "mutation", tool: str | None = "pay", user: str = "ann") -> Act:
    return Act(user, tool, effect, ("bank/7",))


def rank(act: Act, mode: PermissionMode, rules: Sequence[Rule]) -> int:
    return PERMISSIONS.index(authorize(act, mode, rules).permission)


acts = st.builds(
    Act,
    user=st.sampled_from(["ann", "bob"]),
    tool=st.sampled_from([None, "pay", "look"]),
    effect=st.sampled_from([None, *EFFECTS]),
    targets=st.lists(st.sampled_from(["bank/7", "bank", "x"]), max_size=2).map(tuple),
)
rules = st.builds(
    Rule,
    scope=st.sampled_from(RULE_SCOPES),
    name=st.sampled_from(["", "ann", "pay", "bank", "bank/*", "*"]),
    permission=st.sampled_from(PERMISSIONS),
)


@pytest.mark.parametrize(("scope", "permission"), WANTED)
def test_a_rule_is_about_what_the_table_says(scope: RuleScope, permission: Permission) -> None:
    rule = Rule(scope, NAMES[scope], permission)
    of_read, of_change, of_run = WANTED[scope, permission]
    assert authorize(an_act("read"), "full_access", [rule]).permission == of_read
    for effect in ("idempotent", "mutation", None):
        assert authorize(an_act(effect), "full_access", [rule]).permission == of_change
    assert authorize(an_act(tool=None), "full_access", [rule]).permission == of_run


@pytest.mark.parametrize(("scope", "permission"), WANTED)
def test_a_rule_about_something_else_says_nothing(scope: RuleScope, permission: Permission) -> None:
    if scope == "tenant":
        return
    rule = Rule(scope, "another", permission)
    for act in (an_act(), an_act("read"), an_act(tool=None)):
        assert authorize(act, "full_access", [rule]).permission == "allow"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("effect", [None, *EFFECTS])
def test_the_mode_asks_before_everything_but_a_read(
    mode: PermissionMode, effect: Effect | None
) -> None:
    asks = mode == "ask" and effect != "read"
    assert authorize(an_act(effect), mode, []).permission == ("ask" if asks else "allow")


def test_what_asks_or_denies_says_why() -> None:
    for (scope, permission), mode in itertools.product(WANTED, MODES):
        ruling = authorize(an_act(), mode, [Rule(scope, NAMES[scope], permission)])
        assert ruling.why.endswith(".")
        assert "{" not in ruling.why


@given(act=acts, mode=st.sampled_from(MODES), said=st.lists(rules, max_size=5), further=rules)
def test_a_further_rule_never_widens(
    act: Act, mode: PermissionMode, said: list[Rule], further: Rule
) -> None:
    assert rank(act, mode, [*said, further]) >= rank(act, mode, said)


@given(act=acts, said=st.lists(rules, max_size=5))
def test_the_stricter_mode_never_widens(act: Act, said: list[Rule]) -> None:
    assert rank(act, "ask", said) >= rank(act, "full_access", said)


@given(act=acts, mode=st.sampled_from(MODES), said=st.lists(rules, max_size=5))
def test_the_strictest_counts_in_whatever_order_it_was_said(
    act: Act, mode: PermissionMode, said: list[Rule]
) -> None:
    alone = [rank(act, mode, [rule]) for rule in said]
    assert rank(act, mode, said) == rank(act, mode, said[::-1])
    assert rank(act, mode, said) == max([rank(act, mode, []), *alone])


@given(act=acts, mode=st.sampled_from(MODES), said=st.lists(rules, max_size=5))
def test_nobody_is_asked_about_a_read(act: Act, mode: PermissionMode, said: list[Rule]) -> None:
    if not act.is_change:
        assert authorize(act, mode, said).permission != "ask"


@given(act=acts, mode=st.sampled_from(MODES), said=st.lists(rules, max_size=5))
def test_a_tool_that_says_nothing_counts_as_one_that_changes_the_most(
    act: Act, mode: PermissionMode, said: list[Rule]
) -> None:
    silent = Act(act.user, act.tool, None, act.targets)
    worst = Act(act.user, act.tool, "mutation", act.targets)
    assert rank(silent, mode, said) == rank(worst, mode, said) >= rank(act, mode, said)


@pytest.mark.parametrize(
    ("name", "target", "is_covered"),
    [
        ("prod", "prod", True),
        ("prod", "prod/db", True),
        ("prod/", "prod/db", True),
        ("prod", "production", False),
        ("prod*", "production", True),
        ("*", "anything", True),
        ("prod/db", "prod", False),
    ],
)
def test_a_name_covers_itself_and_what_lies_below(name: str, target: str, is_covered: bool) -> None:
    assert covers(name, target) is is_covered
