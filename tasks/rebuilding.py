"""Any request that was ever sent, again, byte for byte, from the record alone."""

import hashlib
from collections.abc import Mapping

from loop.transcript import RequestManifest, build_request
from models.database import Database
from models.records import load_record, load_sent_request, load_spec
from providers.contract import ModelProvider
from umbel.contracts import RunId
from umbel.errors import InvariantBroken, NotFound
from umbel.names import WireName


def rebuild_request(
    database: Database,
    providers: Mapping[WireName, ModelProvider],
    run_id: RunId,
    step: int,
    attempt: int,
) -> bytes:
    """The body that an attempt of a step sent.

    Raises:
        NotFound: there was no such attempt, or it was lost before its reply was recorded.
        InvariantBroken: the record gives other bytes than those that were sent.
    """
    stored = load_sent_request(database, run_id, step, attempt)
    if stored is None:
        raise NotFound(f"Step {step} of {run_id!r} has no recorded attempt {attempt}.")
    manifest = RequestManifest.model_validate_json(stored.manifest)
    spec = load_spec(database, run_id)
    record = load_record(database, spec, manifest.through_step + 1, manifest.steers)
    body = providers[spec.wire].render(build_request(record), manifest.form)
    if hashlib.sha256(body).digest() != stored.request_sha:
        raise InvariantBroken(
            f"The request of step {step}, attempt {attempt} of {run_id!r} cannot be rebuilt: "
            "the record gives other bytes."
        )
    return body
