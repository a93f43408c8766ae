"""`umbel runs context`: what a step sent to its model, from the record alone."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from models.records import find_sent_attempt
from providers.contract import Endpoint, ModelProvider
from providers.profiles import DEFAULT_BASE_URL
from providers.wires import provider_for
from tasks.rebuilding import RebuiltRequest, rebuild_request
from umbel.cli import exits
from umbel.cli.json_lines import write_json
from umbel.cli.plain_output import output_closed
from umbel.cli.runs_reading import open_record
from umbel.contracts import RunId
from umbel.errors import NotFound
from umbel.names import WIRES, WireName


def context_command(
    run: str, step: int, attempt: int | None, data: Path | None, *, is_json: bool
) -> int:
    """Write the body of a request to standard output, with nothing before or behind it."""
    with open_record(data) as record:
        with record.reading() as connection:
            run_id = record.find(connection, run).run_id
        number = attempt or find_sent_attempt(record.database, run_id, step)
        if number is None:
            raise NotFound(
                f"Step {step} of {run_id!r} has sent nothing, or nothing that is recorded; "
                f"`{record.command(f'steps {run_id}')}` shows its model calls."
            )
        sent = rebuild_request(record.database, _writers(), run_id, step, number)
    if is_json:
        write_json(sys.stdout, _facts(run_id, step, number, sent))
    else:
        _write(sent.body)
    return exits.COMPLETED


def _writers() -> Mapping[WireName, ModelProvider]:
    """Adapters that only write: the manifest says how, whatever endpoint is set now."""
    nowhere = Endpoint(base_url=DEFAULT_BASE_URL, api_key="")
    return {wire: provider_for(nowhere, wire=wire) for wire in WIRES}


def _facts(run_id: RunId, step: int, attempt: int, sent: RebuiltRequest) -> dict[str, object]:
    weight = sent.manifest.weight
    return {
        "run_id": run_id,
        "step": step,
        "attempt": attempt,
        "purpose": sent.purpose,
        "sha256": sent.sha256,
        "left_out": sent.manifest.shape.model_dump(mode="json"),
        "weight": None if weight is None else weight.model_dump(mode="json"),
        "request": json.loads(sent.body),
    }


def _write(body: bytes) -> None:
    try:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        output_closed()
