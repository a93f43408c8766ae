"""Listing the newest runs of a tenant without reading those of others."""

from typing import Final

from alembic import op

revision: Final = "0005"
down_revision: Final = "0004"


def upgrade() -> None:
    op.execute("CREATE INDEX runs_tenant_accepted_at_id_ix ON runs (tenant, accepted_at, id)")


def downgrade() -> None:
    op.execute("DROP INDEX runs_tenant_accepted_at_id_ix")
