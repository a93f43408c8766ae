"""Any request that was ever sent, again, byte for byte, from the record alone."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from loop.cutting import left_out_before
from loop.request import ModelRequest
from loop.summarising import summary_request
from loop.transcript import RequestManifest, build_request
from models.database import Database
from models.records import RunSpec, load_record, load_sent_request, load_spec
from models.schema import parse_stored
from providers.contract import ModelProvider
from umbel.contracts import RunId
from umbel.errors import InvariantBroken, NotFound
from umbel.names import WireName


@dataclass(frozen=True, slots=True)
class RebuiltRequest:
    """A request as it was sent."""

    body: bytes
    sha256: str
    """Of the body, in hex; the same as when it was sent."""
    manifest: RequestManifest

    @property
    def purpose(self) -> str:
        """`main`: it asked for the step; `compact`: for a summary of what came before."""
        return "main" if self.manifest.sources is None else "compact"


def rebuild_request(
    database: Database,
    providers: Mapping[WireName, ModelProvider],
    run_id: RunId,
    step: int,
    attempt: int,
) -> RebuiltRequest:
    """The request that an attempt of a step sent, for the step or for a summary.

    Raises:
        NotFound: there was no such attempt, or it was lost before its reply was recorded.
        InvariantBroken: the record gives other bytes than those that were sent.
    """
    stored = load_sent_request(database, run_id, step, attempt)
    if stored is None:
        raise NotFound(
            f"Step {step} of {run_id!r} has no recorded attempt {attempt}: there was none, or its "
            "worker was lost before it wrote down what it had sent."
        )
    manifest = parse_stored(RequestManifest, stored.manifest)
    spec = load_spec(database, run_id)
    request = _request_of(database, spec, manifest)
    body = providers[spec.wire].render(request, manifest.form)
    sha = hashlib.sha256(body)
    if sha.digest() != stored.request_sha:
        raise InvariantBroken(
            f"The request of step {step}, attempt {attempt} of {run_id!r} cannot be rebuilt: "
            "the record gives other bytes."
        )
    return RebuiltRequest(body, sha.hexdigest(), manifest)


def _request_of(database: Database, spec: RunSpec, manifest: RequestManifest) -> ModelRequest:
    record = load_record(
        database,
        spec,
        manifest.through_step + 1,
        manifest.steers,
        manifest.shape,
        manifest.source_rev,
    )
    if manifest.sources is None:
        return build_request(replace(record, mistake=manifest.mistake), manifest.shape)
    return summary_request(
        record, left_out_before(record, manifest.sources.before), manifest.sources
    )
