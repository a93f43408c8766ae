"""All tables. A rule that can be a CHECK or a unique index is one, so that no code can break it."""

from models.authority_tables import approvals, authority
from models.call_tables import calls, deliveries, evidence, receipts
from models.capture_tables import captures, evidence_chunks, pictures
from models.run_tables import entries, events, model_calls, run_specs, runs, workers
from models.schema import metadata
from models.source_tables import evidence_sources, given_sources, sources
from models.steer_tables import steers
from models.summary_tables import summaries
from models.tallies_table import tallies
from models.thread_tables import threads

__all__ = [
    "approvals",
    "authority",
    "calls",
    "captures",
    "deliveries",
    "entries",
    "events",
    "evidence",
    "evidence_chunks",
    "evidence_sources",
    "given_sources",
    "metadata",
    "model_calls",
    "pictures",
    "receipts",
    "run_specs",
    "runs",
    "sources",
    "steers",
    "summaries",
    "tallies",
    "threads",
    "workers",
]
