"""Long results in chunks, pictures of results; evidence that nobody can change."""

from typing import Final

from alembic import op

revision: Final = "0012"
down_revision: Final = "0011"

_UPGRADE: Final = """
CREATE TABLE captures (
    id text COLLATE "C" NOT NULL,
    call_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    is_kept boolean NOT NULL DEFAULT false,
    begun_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT captures_pk PRIMARY KEY (id)
);
CREATE INDEX captures_run_id_ix ON captures (run_id);
CREATE INDEX captures_loose_ix ON captures (begun_at) WHERE NOT is_kept;
COMMENT ON TABLE captures IS 'What one try of a call wrote beside its evidence row.';
COMMENT ON COLUMN captures.tenant IS 'who the row belongs to';
COMMENT ON COLUMN captures.is_kept IS 'an evidence row names it';

CREATE TABLE evidence_chunks (
    capture_id text COLLATE "C" NOT NULL,
    start_char bigint NOT NULL,
    start_line bigint NOT NULL,
    body text NOT NULL,
    CONSTRAINT evidence_chunks_pk PRIMARY KEY (capture_id, start_char),
    CONSTRAINT evidence_chunks_capture_id_fk FOREIGN KEY (capture_id)
        REFERENCES captures (id) ON DELETE CASCADE,
    CONSTRAINT evidence_chunks_place
        CHECK (start_char >= 0 AND start_line BETWEEN 0 AND start_char AND body <> '')
);
COMMENT ON TABLE evidence_chunks IS 'A part of a result that is too long for one row.';
COMMENT ON COLUMN evidence_chunks.start_char IS 'characters of the result before it';
COMMENT ON COLUMN evidence_chunks.start_line IS 'line ends of the result before it';
COMMENT ON COLUMN evidence_chunks.body IS 'never ends inside an escape';

CREATE TABLE pictures (
    capture_id text COLLATE "C" NOT NULL,
    number smallint NOT NULL,
    media_type text NOT NULL,
    body bytea NOT NULL,
    sha256 bytea NOT NULL,
    CONSTRAINT pictures_pk PRIMARY KEY (capture_id, number),
    CONSTRAINT pictures_capture_id_fk FOREIGN KEY (capture_id)
        REFERENCES captures (id) ON DELETE CASCADE,
    CONSTRAINT pictures_media_type
        CHECK (media_type IN ('image/png', 'image/jpeg', 'image/gif', 'image/webp')),
    CONSTRAINT pictures_sha256 CHECK (sha256 = sha256(body))
);
COMMENT ON TABLE pictures IS 'A picture of a result, for models that take pictures.';
COMMENT ON COLUMN pictures.number IS 'order in the result, from 1';

ALTER TABLE evidence ADD COLUMN capture_id text COLLATE "C";
ALTER TABLE evidence ALTER COLUMN body DROP NOT NULL;
ALTER TABLE evidence ADD CONSTRAINT evidence_has_text
    CHECK (body IS NOT NULL OR capture_id IS NOT NULL);
COMMENT ON COLUMN evidence.body IS 'the whole result, JSON text; NULL: it is in chunks';
COMMENT ON COLUMN evidence.capture_id IS 'its chunks and pictures, if it has any';

CREATE FUNCTION refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is never changed', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER evidence_immutable AFTER UPDATE OF call_id, run_id, thread_id, tenant, body, view,
    sha256, total_chars, is_escaped, stored_at, capture_id ON evidence
FOR EACH ROW EXECUTE FUNCTION refuse_update();
CREATE TRIGGER evidence_chunks_immutable AFTER UPDATE ON evidence_chunks
FOR EACH ROW EXECUTE FUNCTION refuse_update();
CREATE TRIGGER pictures_immutable AFTER UPDATE ON pictures
FOR EACH ROW EXECUTE FUNCTION refuse_update();
"""

# Results in chunks have no row of the older form: going back is for databases without them.
_DOWNGRADE: Final = """
DROP TRIGGER evidence_immutable ON evidence;
ALTER TABLE evidence DROP COLUMN capture_id, ALTER COLUMN body SET NOT NULL;
COMMENT ON COLUMN evidence.body IS 'the whole result, JSON text';
DROP TABLE pictures;
DROP TABLE evidence_chunks;
DROP TABLE captures;
DROP FUNCTION refuse_update();
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute(_DOWNGRADE)
