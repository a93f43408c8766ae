"""`umbel authority list|deny|ask|allow`: rules that stand above every run of a tenant.

Whoever may write to the database may say them: they are for operators, and no owner of a run can
reach them through a run.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from loop.authorize import Rule
from models.authority import Said, say, what_was_said
from tools.registry import load_registry
from umbel.cli import exits
from umbel.cli.acting import database_in_use, say_lines
from umbel.cli.json_lines import write_json
from umbel.cli.plain_output import PlainConsole
from umbel.cli.request_text import request_text
from umbel.cli.runs_reading import open_record
from umbel.cli.safe_text import one_line, safe
from umbel.contracts import Principal
from umbel.errors import InvalidInput, Misconfigured
from umbel.names import RULE_SCOPES, Permission, RuleScope
from umbel.settings import Settings
from umbel.target_name import target_name

_MEANS: Final[dict[tuple[RuleScope, Permission], str]] = {
    ("tenant", "deny"): "no run changes anything",
    ("tenant", "ask"): "every change waits for the owner of its run",
    ("user", "deny"): "their runs do nothing and are told nothing",
    ("user", "ask"): "every change of their runs waits for them",
    ("tool", "deny"): "it is not called",
    ("tool", "ask"): "it changes nothing without the owner of the run",
    ("target", "deny"): "nothing changes it, or what lies below it",
    ("target", "ask"): "nothing changes it without the owner of the run",
    **{(scope, "allow"): "nothing is said about it any more" for scope in RULE_SCOPES},
}


def list_command(data: Path | None, *, is_whole: bool, is_json: bool) -> int:
    """Show what counts, or everything that was ever said."""
    with open_record(data) as record:
        said = what_was_said(record.database, record.tenant or record.settings.tenant)
    shown = [rule for rule in said if is_whole or (rule.is_newest and rule.permission != "allow")]
    if is_json:
        for rule in shown:
            write_json(sys.stdout, asdict(rule) | {"thing": _thing_of(rule)})
        return exits.COMPLETED
    console = PlainConsole(sys.stdout)
    if not shown:
        console.print("nothing is said: each run's permission alone counts")
    for rule in shown:
        over = "" if rule.is_newest else " (no longer)"
        means = f"{_thing_of(rule)}: {_MEANS[rule.scope, rule.permission]}{over}"
        by = f"{rule.said_by}, {rule.said_at:%Y-%m-%d %H:%M:%S %Z}: {one_line(rule.why, 500)}"
        console.print(f"{rule.permission:<6}{safe(means)}", soft_wrap=True, markup=False)
        console.print(f"      {safe(by)}", soft_wrap=True, markup=False)
    return exits.COMPLETED


def say_command(
    permission: Permission, thing: str, why: str, data: Path | None, *, is_json: bool
) -> int:
    """Let a rule count from now on.

    Raises:
        InvalidInput: there is no such thing, or no reason.
        Unavailable: the record does not answer; the rule may count already, and may be said again.
    """
    rule, words = _rule(permission, thing), request_text(why)
    with database_in_use(data) as (settings, database):
        by = Principal(tenant=settings.tenant, user=settings.user)
        rev = say(database, by, rule, words)
    doubt = _doubt(rule, settings)
    if is_json:
        facts = {"type": "authority.said", "rev": rev, **asdict(rule), "thing": _thing_of(rule)}
        write_json(sys.stdout, facts | {"tenant": by.tenant, "said_by": by.user, "note": doubt})
        return exits.COMPLETED
    about = "" if rule.scope == "tenant" else f"{_thing_of(rule)} in "
    means = f"{about}tenant {by.tenant}: {_MEANS[rule.scope, permission]}"
    lines: list[tuple[str, str]] = [(permission, means)]
    if doubt is not None:
        lines.append(("note", doubt))
    lines.append(("look", "umbel authority list" + (f" --data {data}" if data else "")))
    say_lines(lines)
    return exits.COMPLETED


def _rule(permission: Permission, thing: str) -> Rule:
    scope, _, name = thing.partition(":")
    for known in RULE_SCOPES:
        if scope == known:
            return Rule(known, target_name(name) if known == "target" else name, permission)
    raise InvalidInput(
        f"No rule can be about {thing!r}: write tenant, user:NAME, tool:NAME or target:NAME."
    )


def _doubt(rule: Rule, settings: Settings) -> str | None:
    """What may be wrong about a name, as far as these settings tell."""
    if rule.scope != "tool":
        return None
    try:
        is_known = rule.name in load_registry(settings.tools)
    except Misconfigured:
        return None  # a rule must not wait until every module of tools can be loaded
    return None if is_known else f"there is no tool {rule.name!r} here; look at how it is spelt"


def _thing_of(rule: Rule | Said) -> str:
    return rule.scope if rule.scope == "tenant" else f"{rule.scope}:{rule.name}"
