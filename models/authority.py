"""What is said about everybody's runs: freezes, switches, protected targets, grants.

Nothing is cached: whoever is about to act reads the newest words, and an intent passes only while
they still are the newest (`HOLDS`).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from loop.authorize import Rule
from models.database import Database, Row
from models.input_checks import check_storable
from umbel.contracts import Principal
from umbel.errors import InvalidInput
from umbel.names import PERMISSIONS, RULE_SCOPES, Permission, RuleScope
from umbel.target_name import target_name

# One lock per tenant, shared by intents and exclusive for new words: when a freeze has committed,
# every intent that had not heard of it has committed too, or never will. Taken after LOCK_RUN, and
# held alone by those who say something, so that it takes part in no deadlock.
_LOCK: Final = "hashtextextended('authority ' || %(tenant)s, 0)"
LOCK_SHARED: Final = f"SELECT pg_advisory_xact_lock_shared({_LOCK})"
_LOCK_ALONE: Final = f"SELECT pg_advisory_xact_lock({_LOCK})"

# Of `runs`: what its call was judged by is still all that has been said. Run after LOCK_SHARED.
HOLDS: Final = """
(SELECT coalesce(max(a.rev), 0) FROM authority a WHERE a.tenant = %(tenant)s) = %(authority_rev)s
"""

RULES: Final = """
SELECT DISTINCT ON (scope, name) rev, scope, name, permission FROM authority
WHERE tenant = %(tenant)s ORDER BY scope, name, rev DESC
"""

_SAID: Final = """
SELECT rev, scope, name, permission, said_by, said_at, why,
  rev = max(rev) OVER (PARTITION BY scope, name) AS is_newest
FROM authority WHERE tenant = %(tenant)s ORDER BY rev DESC
"""

_SAY: Final = """
INSERT INTO authority (tenant, rev, scope, name, permission, said_by, why)
SELECT %(tenant)s, coalesce(max(rev), 0) + 1, %(scope)s, %(name)s, %(permission)s, %(said_by)s,
  %(why)s
FROM authority WHERE tenant = %(tenant)s
RETURNING rev
"""


@dataclass(frozen=True, slots=True)
class Authority:
    """Everything that has been said in a tenant, at one moment."""

    rev: int = 0
    rules: tuple[Rule, ...] = ()


NOTHING_SAID: Final = Authority()


@dataclass(frozen=True, slots=True)
class Said:
    """A rule with who said it."""

    rev: int
    scope: RuleScope
    name: str
    permission: Permission
    said_by: str
    said_at: datetime
    why: str
    is_newest: bool
    """About its thing: it counts."""


def read_authority(database: Database, tenant: str) -> Authority:
    """What counts now."""
    [rows] = database.run((RULES, {"tenant": tenant}))
    return authority_of(rows)


def authority_of(rows: list[Row]) -> Authority:
    """The rows of RULES."""
    rules = tuple(Rule(row["scope"], row["name"], row["permission"]) for row in rows)
    return Authority(max((row["rev"] for row in rows), default=0), rules)


def what_was_said(database: Database, tenant: str) -> list[Said]:
    """Everything that was ever said in a tenant, newest first."""
    [rows] = database.run((_SAID, {"tenant": tenant}))
    return [Said(**row) for row in rows]


def say(database: Database, principal: Principal, rule: Rule, why: str) -> int:
    """Let a rule count in the principal's tenant from now on; its number.

    Of each thing the newest rule counts. When this returns no change that it forbids can start any
    more. The caller makes sure that the principal may: owners of runs may not.

    Args:
        database: where it is written down.
        principal: who says so.
        rule: the name of a target is kept in the form that those of calls are compared in.
        why: for the record.

    Raises:
        InvalidInput: the rule has no such form, or the reason is empty.
    """
    check_storable("The reason", why)
    check_storable("The name", rule.name)
    if not why.strip():
        raise InvalidInput("The reason is empty: say why, for the record.")
    if rule.scope not in RULE_SCOPES or rule.permission not in PERMISSIONS:
        raise InvalidInput(f"There is no rule {rule.permission!r} about {rule.scope!r}.")
    name = target_name(rule.name) if rule.scope == "target" else rule.name
    if (name == "") != (rule.scope == "tenant"):
        raise InvalidInput(f"A rule about a {rule.scope} does not have the name {rule.name!r}.")
    parameters = {
        "tenant": principal.tenant,
        "scope": rule.scope,
        "name": name,
        "permission": rule.permission,
        "said_by": principal.user,
        "why": why,
    }
    _, rows = database.run((_LOCK_ALONE, parameters), (_SAY, parameters))
    return int(rows[0]["rev"])
