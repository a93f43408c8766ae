"""A reason of its own for runs whose owner's access was withdrawn (ADR 0007)."""

from typing import Final

from alembic import op

revision: Final = "0014"
down_revision: Final = "0013"

_REASONS: Final = (
    "'approval_required', 'provider_retry', 'child_run', 'unknown_outcome', 'tool_call_limit',"
    " 'iteration_limit', 'context_capacity', 'stall', 'repeated_failure', 'empty_response',"
    " 'credentials',{new} 'provider_error', 'lost_worker', 'owner_stop', 'budget_exhausted',"
    " 'contract_mismatch', 'persistence_failed', 'corrupt_record'"
)


def upgrade() -> None:
    _allow(_REASONS.format(new=" 'access_withdrawn',"))


def downgrade() -> None:
    op.execute("UPDATE runs SET reason = 'credentials' WHERE reason = 'access_withdrawn'")
    op.execute(
        "UPDATE runs SET pause_reason = 'credentials' WHERE pause_reason = 'access_withdrawn'"
    )
    _allow(_REASONS.format(new=""))


def _allow(reasons: str) -> None:
    for column in ("reason", "pause_reason"):
        op.execute(f"ALTER TABLE runs DROP CONSTRAINT runs_{column}")
        op.execute(f"ALTER TABLE runs ADD CONSTRAINT runs_{column} CHECK ({column} IN ({reasons}))")
