"""Adding up what was used in some days, without reading all attempts there ever were."""

from typing import Final

from alembic import op

revision: Final = "0017"
down_revision: Final = "0016"


def upgrade() -> None:
    op.execute("CREATE INDEX model_calls_opened_ix ON model_calls USING brin (opened_at)")


def downgrade() -> None:
    op.execute("DROP INDEX model_calls_opened_ix")
