"""Runs keep whether their model takes pictures."""

from typing import Final

from alembic import op

revision: Final = "0015"
down_revision: Final = "0014"

_UPGRADE: Final = """
ALTER TABLE run_specs ADD COLUMN takes_pictures boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN run_specs.takes_pictures IS 'its model is shown the pictures of results';
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute("ALTER TABLE run_specs DROP COLUMN takes_pictures")
