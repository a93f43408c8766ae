"""The trace of whoever asked for a run, so that its spans join that trace."""

from typing import Final

from alembic import op

revision: Final = "0006"
down_revision: Final = "0005"

_UPGRADE: Final = """
ALTER TABLE run_specs ADD COLUMN traceparent text;
ALTER TABLE run_specs ADD CONSTRAINT run_specs_traceparent
    CHECK (traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$');
COMMENT ON COLUMN run_specs.traceparent IS 'trace of the caller, as W3C Trace Context writes it';
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute("ALTER TABLE run_specs DROP COLUMN traceparent")
