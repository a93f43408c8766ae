"""`umbel receipts list|verify`: changes that were sent, and what became of them."""

import sys
from dataclasses import asdict
from pathlib import Path

from models.owner_reading import Receipt, list_receipts
from umbel.cli import exits
from umbel.cli.acting import REPEATED, acting
from umbel.cli.json_lines import write_json
from umbel.cli.plain_output import PlainConsole
from umbel.cli.request_text import request_text
from umbel.cli.runs_reading import open_record
from umbel.cli.safe_text import one_line, safe
from umbel.errors import InvalidInput
from umbel.names import VERIFICATIONS, Verification


def list_command(
    run: str | None, data: Path | None, *, only_unknown: bool, limit: int, is_json: bool
) -> int:
    """Show receipts, newest first.

    Raises:
        NotFound: there is no single such run.
    """
    with open_record(data) as record:
        run_id = record.id_of(run)
        found = list_receipts(
            record.database,
            tenant=record.tenant,
            run_id=run_id,
            only_unknown=only_unknown,
            limit=limit,
        )
    if is_json:
        for receipt in found:
            write_json(sys.stdout, asdict(receipt))
        return exits.COMPLETED
    console = PlainConsole(sys.stdout)
    if not found:
        console.print("no receipts")
    for receipt in found:
        for line in _lines(receipt):
            console.print(safe(line), soft_wrap=True)
    return exits.COMPLETED


def verify_command(call: str, outcome: str, found: str, data: Path | None, *, is_json: bool) -> int:
    """Settle an unknown change by what its owner found.

    Raises:
        Conflict, InvalidInput, NotFound, NotPermitted: it cannot be; says why.
        Unavailable: the record does not answer.
    """
    words, word = request_text(found), _outcome(outcome)
    with acting(data, is_json=is_json) as system:
        done = system.service.verify(call, word, words)
        run_id = done.run_id
        if done.unknowns:
            to_do = system.record.command("list --unknown").replace("umbel runs", "umbel receipts")
            left = f"{done.unknowns} more of {run_id}; {to_do}"
        else:
            left = f"none of {run_id}; {system.record.command(f'resume {run_id}')}"
        lines = [("verified", f"{done.call_id}: {done.outcome}"), ("unknown", left)]
        if not done.is_new:
            lines.append(REPEATED)
        system.say("receipt.verified", asdict(done), lines)
    return exits.COMPLETED


def _lines(receipt: Receipt) -> list[str]:
    late = ", late" if receipt.is_late else ""
    lines = [
        f"{receipt.call_id}  {receipt.outcome}{late}  {receipt.run_id}  "
        f"{receipt.intent_at:%Y-%m-%d %H:%M:%S %Z}",
        f"    {receipt.tool} {one_line(receipt.args_text, 2_000)}",
    ]
    if receipt.resources:
        lines.append(f"    it named: {one_line(', '.join(receipt.resources), 2_000)}")
    if receipt.verified is not None:
        words = one_line(receipt.verified_text or "", 200)
        lines.append(f"    {receipt.verified_by} found: {receipt.verified}. {words}")
    elif receipt.outcome == "unknown":
        lines.append(
            f"    Find out whether it happened, then: umbel receipts verify {receipt.call_id} "
            "happened|not_happened|partial WHAT-YOU-FOUND"
        )
    return lines


def _outcome(word: str) -> Verification:
    for known in VERIFICATIONS:
        if word == known:
            return known
    raise InvalidInput(f"The outcome {word!r} is none of {', '.join(VERIFICATIONS)}.")
