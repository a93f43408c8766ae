"""Removing threads without reading all runs for each."""

from typing import Final

from alembic import op

revision: Final = "0010"
down_revision: Final = "0009"


def upgrade() -> None:
    op.execute("CREATE INDEX runs_thread_id_ix ON runs (thread_id)")


def downgrade() -> None:
    op.execute("DROP INDEX runs_thread_id_ix")
