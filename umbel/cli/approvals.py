"""`umbel approvals list|show|approve|deny`: changes that wait for their owner."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from models.approval_cards import Card, find_card, open_cards
from umbel.cli import exits
from umbel.cli.acting import REPEATED, Acting, acting
from umbel.cli.json_lines import write_json
from umbel.cli.plain_output import PlainConsole
from umbel.cli.request_text import request_text
from umbel.cli.runs_reading import Record, open_record
from umbel.cli.safe_text import one_line, safe
from umbel.errors import Conflict, InvalidInput, NotFound
from umbel.visible import marks, visible

LEAST_HASH: Final = 12
"""Digits of the hash that `approve` and `deny` ask for: nobody decides unseen by habit."""
_LINE_CHARS: Final = 160


def list_command(run: str | None, data: Path | None, *, limit: int, is_json: bool) -> int:
    """Show what waits for an owner, those of a step together.

    Raises:
        NotFound: there is no single such run.
    """
    with open_record(data) as record:
        run_id = record.id_of(run)
        cards = open_cards(record.database, tenant=record.tenant, run_id=run_id, limit=limit)
        if is_json:
            for card in cards:
                write_json(sys.stdout, _facts(card))
            return exits.COMPLETED
        console = PlainConsole(sys.stdout)
        if not cards:
            console.print("nothing waits for an owner")
        for card in cards:
            step = f"{card.run_id} step {card.step}, of {card.owner}"
            what = f"{card.tool} {one_line(visible(card.args_text), _LINE_CHARS)}"
            console.print(f"{card.call_id}  {safe(step)}", soft_wrap=True)
            console.print(f"    {safe(what)}", soft_wrap=True, markup=False)
        if cards:
            console.print(f"look: {_command(record, f'show {cards[0].call_id}')}", soft_wrap=True)
    return exits.COMPLETED


def show_command(call: str, data: Path | None, *, is_json: bool) -> int:
    """Show exactly what would be sent, and what its owner should know.

    Raises:
        NotFound: no such call asks or asked for approval.
    """
    with open_record(data) as record:
        card = _find(record, call)
        if is_json:
            write_json(sys.stdout, _facts(card))
            return exits.COMPLETED
        console = PlainConsole(sys.stdout)
        for label, text in _card_lines(record, card):
            first, *rest = text.split("\n")
            console.print(f"{label:<11}{first}", soft_wrap=True, markup=False)
            for line in rest:
                console.print(f"{'':<11}{line}", soft_wrap=True, markup=False)
    return exits.COMPLETED


def approve_command(call: str, seen: str, data: Path | None, *, is_json: bool) -> int:
    """Let a change start that waits for its owner.

    Raises:
        Conflict, InvalidInput, NotFound: it cannot be; says why.
        Unavailable: the record does not answer.
    """
    with acting(data, is_json=is_json) as system:
        sha256 = _whole_hash(_find(system.record, call), seen)
        done = system.service.approve(call, sha256)
        lines = [("approved", f"{done.call_id}: it starts within the hour, once, or not at all")]
        return _decided(system, asdict(done), lines, is_new=done.is_new)


def deny_command(call: str, seen: str, words: str, data: Path | None, *, is_json: bool) -> int:
    """Let a change not be done that waits for its owner.

    Raises:
        Conflict, InvalidInput, NotFound: it cannot be; says why.
        Unavailable: the record does not answer.
    """
    said = request_text(words) if words else ""
    with acting(data, is_json=is_json) as system:
        sha256 = _whole_hash(_find(system.record, call), seen)
        done = system.service.deny(call, sha256, said)
        lines = [("denied", f"{done.call_id}: nothing was sent, and the model is told so")]
        return _decided(system, asdict(done), lines, is_new=done.is_new)


def _decided(
    system: Acting, facts: dict[str, object], lines: list[tuple[str, str]], *, is_new: bool
) -> int:
    lines.append(("look", system.record.command(f"tail {facts['run_id']}")))
    system.say("approval.decided", facts, lines if is_new else [*lines, REPEATED])
    return exits.COMPLETED


def _find(record: Record, call: str) -> Card:
    card = find_card(record.database, call, tenant=record.tenant)
    if card is None:
        raise NotFound(f"No call {call!r} asks for approval; see {_command(record, 'list')}.")
    return card


def _whole_hash(card: Card, seen: str) -> str:
    """The hash that begins as the person says.

    Raises:
        InvalidInput: they say too little to have read it.
        Conflict: the call has other bytes.
    """
    if len(seen) < LEAST_HASH:
        raise InvalidInput(f"Give at least {LEAST_HASH} digits of the hash that `show` prints.")
    if not card.sha256.startswith(seen.lower()):
        raise Conflict(f"{card.call_id} would send bytes of another hash; look at it again.")
    return card.sha256


def _facts(card: Card) -> dict[str, object]:
    text = card.args_text
    facts: dict[str, object] = asdict(card)
    facts |= {"args_shown": visible(text), "marks": marks(text)}
    return facts | {"args_bytes": len(text.encode())}


def _card_lines(record: Record, card: Card) -> Iterator[tuple[str, str]]:
    size = len(card.args_text.encode())
    yield "call", f"{card.call_id}, {card.position} of step {card.step} of {card.run_id}"
    yield "state", _state(card)
    yield "request", safe(one_line(card.request, _LINE_CHARS))
    yield "tool", f"{safe(card.tool)}, version {visible(card.tool_version)}: a {card.effect}"
    yield "sends", visible(card.args_text)
    yield "", f"that is all of it: {size:,} bytes"
    yield "SHA-256", card.sha256
    for mark in marks(card.args_text):
        yield "CAREFUL", f"it holds {mark}"
    for origin in card.origins:
        yield "untrusted", f"{safe(origin.what)}: {origin.chars:,} characters ({origin.source})"
    if not card.origins:
        yield "untrusted", "nothing has come in since its owner's last word"
    if card.state == "awaiting_approval":
        short = f"{card.call_id} {card.sha256[:LEAST_HASH]}"
        yield "to do", _command(record, f"approve {short}")
        yield "", _command(record, f"deny {short} WHY")


def _state(card: Card) -> str:
    words = card.state.replace("_", " ")
    if card.word is not None:
        words += f"; {card.word}" + (f" by {safe(card.said_by)}" if card.said_by else "")
        words += f": {safe(one_line(card.words, _LINE_CHARS))}" if card.words else ""
    if card.until is not None and card.state in ("awaiting_approval", "planned", "ready"):
        words += f"; until {card.until:%Y-%m-%d %H:%M:%S %Z}"
    return words


def _command(record: Record, words: str) -> str:
    return record.command(words).replace("umbel runs", "umbel approvals", 1)
