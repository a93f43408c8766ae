"""What a check says about one part: a state, one line, and one remedy."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

State = Literal["ok", "warning", "problem", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """How a part is. Made by `ok`, `warning`, `problem` and `skipped`."""

    part: str
    state: State
    found: str
    """One line."""
    remedy: str | None = None
    """What to do, as a command or a setting; None where nothing is to do."""
    facts: Mapping[str, object] = field(default_factory=dict[str, object])
    """For programs: numbers, ids, names."""
    blocks: bool = False
    """The part cannot be used: checks that need it are skipped."""

    def blocking(self) -> "Finding":
        """The same, and whoever needs this part is not asked."""
        return replace(self, blocks=True)


def ok(part: str, found: str, **facts: object) -> Finding:
    """Nothing to do."""
    return Finding(part, "ok", found, None, facts)


def warning(part: str, found: str, remedy: str, **facts: object) -> Finding:
    """It works; somebody should look at it."""
    return Finding(part, "warning", found, remedy, facts)


def problem(part: str, found: str, remedy: str, **facts: object) -> Finding:
    """It does not work, or will not for long."""
    return Finding(part, "problem", found, remedy, facts)


def skipped(part: str, needed: str) -> Finding:
    """It could not be looked at, because of another part."""
    return Finding(
        part,
        "skipped",
        f"depends on {needed}",
        f"Put {needed} right first.",
        {"depends_on": needed},
        blocks=True,
    )


def worst(part: str, found: str, concerns: "list[Finding]", **facts: object) -> Finding:
    """One finding out of several concerns: the gravest first, `found` where there is none."""
    if not concerns:
        return ok(part, found, **facts)
    ordered = sorted(concerns, key=lambda concern: concern.state != "problem")
    merged: dict[str, object] = dict(facts)
    for concern in reversed(ordered):
        merged.update(concern.facts)
    return Finding(
        part,
        ordered[0].state,
        "; ".join([found, *(concern.found for concern in ordered)]),
        " ".join(dict.fromkeys(concern.remedy or "" for concern in ordered)).strip(),
        merged,
        any(concern.blocks for concern in ordered),
    )
