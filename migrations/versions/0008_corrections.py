"""Corrections by collaborators, resumes with other limits, and threads whose runs follow up."""

from typing import Final

from alembic import op

revision: Final = "0008"
down_revision: Final = "0007"

_UPGRADE: Final = """
ALTER TABLE threads ADD COLUMN collaborators text[] NOT NULL DEFAULT '{}'::text[];
ALTER TABLE threads ADD COLUMN owner_must_approve boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN threads.collaborators IS 'who else may correct its runs while it is public';
COMMENT ON COLUMN threads.owner_must_approve IS
    'a collaborator has corrected one of its runs: later ones know those words';
ALTER TABLE runs ADD COLUMN owner_must_approve boolean NOT NULL DEFAULT false;
ALTER TABLE runs ADD COLUMN policy_rev smallint NOT NULL DEFAULT '0';
COMMENT ON COLUMN runs.owner_must_approve IS
    'it knows words of a collaborator: its changes need the owner, whatever its mode';
COMMENT ON COLUMN runs.policy_rev IS 'bumped by a resume that sets other limits';
COMMENT ON TABLE run_specs IS
    'What was frozen into a run when it was accepted. Only a resume may set other limits.';
CREATE INDEX entries_thread_id_run_id_ix ON entries (thread_id, run_id);
"""

_DOWNGRADE: Final = """
DROP INDEX entries_thread_id_run_id_ix;
COMMENT ON TABLE run_specs IS 'What was frozen into a run when it was accepted. Never updated.';
ALTER TABLE runs DROP COLUMN policy_rev, DROP COLUMN owner_must_approve;
ALTER TABLE threads DROP COLUMN owner_must_approve, DROP COLUMN collaborators;
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute(_DOWNGRADE)
