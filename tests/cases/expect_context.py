"""What was left out of requests, and how it was summarised."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.cases.found import Found

_PURPOSES: Final = {"summary": "compact"}
"""Purposes of the case format that the product calls otherwise."""


def _aux_requests(found: Found, expected: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for purpose, wish in expected.items():
        wanted = _PURPOSES.get(purpose, purpose)
        for request in found.world.model.requests:
            if request.purpose == wanted:
                yield from _aux_request(purpose, request.body, wish)


def _aux_request(purpose: str, body: Mapping[str, Any], wish: Mapping[str, Any]) -> Iterator[str]:
    if wish.get("no_tools") and body.get("tools"):
        yield f"aux_requests.{purpose}: expected no tools, found {len(body['tools'])}"
    role = wish.get("source_role")
    roles = {message["role"] for message in body.get("messages", [])} - {"system"}
    if role is not None and roles != {role}:
        yield f"aux_requests.{purpose}: expected sources as {role!r}, found {sorted(roles)}"


def _if_compacted(found: Found, expected: Mapping[str, bool]) -> Iterator[str]:
    steps = {call["step"] for call in found.record.calls}
    decided = {row["step"] for row in found.record.model_calls if row["decision"] == "dispatch"}
    for row in found.record.summaries:
        first_kept = row["first_kept_step"]
        if expected.get("anchor_recorded") and not row["first_kept_run"]:
            yield f"if_compacted: summary {row['number']} does not say what is kept"
        is_start = first_kept in decided | steps
        if expected.get("anchor_is_group_start") and not is_start:
            yield f"if_compacted: summary {row['number']} ends at {first_kept}, no step's begin"


CHECKS: Final[dict[str, Callable[[Found, Any], Iterator[str]]]] = {
    "aux_requests": _aux_requests,
    "if_compacted": _if_compacted,
}
