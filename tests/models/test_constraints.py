"""The tables refuse every state that no code may ever write."""

import psycopg
import pytest

from loop.decision import Answer
from models.database import Database
from models.owner import steer_run
from models.steps import commit_answer
from tests.factories import OWNER, a_run
from tests.models.story import (
    CHANGE,
    READ,
    REFUSED,
    an_exchange,
    change,
    claimed,
    dispatched,
    query,
    started,
)
from umbel.errors import InvariantBroken

READY_RUN = "WHERE work = 'ready'"
DONE_RUN = "WHERE status = 'completed'"
OPEN_ATTEMPT = "WHERE state = 'open'"
CLOSED_ATTEMPT = "WHERE decision = 'answer'"
SENT = "WHERE effect = 'mutation'"
READY_CALL = "WHERE state = 'ready'"
REFUSED_CALL = "WHERE state = 'refused'"
UNKNOWN = "outcome = 'unknown', closed_at = now()"
SAID = "verified_by = 'ann', verified_at = now(), verified_text = 'No.'"
WORD = "verified = 'happened'"
UNTIL = "approval_until = now()"
ASKING = "reason = 'approval_required'"
APPROVAL = (
    "INSERT INTO approvals SELECT 'apr_1', tenant, run_id, id, '{word}', {by}, '', tool,"
    " tool_version, args_sha, 0, 0 FROM calls WHERE state = 'ready'"
)
CHUNK = "INSERT INTO evidence_chunks VALUES ('cap_1', {char}, {line}, '{body}')"
PICTURE = "INSERT INTO pictures VALUES ('cap_1', 1, '{kind}', 'x', {sha})"

SUMMARY = (
    "INSERT INTO summaries SELECT 'sum_1', tenant, thread_id, id, {number}, {previous}, 1,"
    " {attempt}, '{kind}', id, 1, 0, 'notes', '', NULL, now() FROM runs WHERE work = 'ready'"
)

CASES = [
    ("runs_status", f"UPDATE runs SET status = 'odd', reason = 'stall', work = 'none' {READY_RUN}"),
    ("runs_reason", f"UPDATE runs SET status = 'waiting', reason = 'odd' {READY_RUN}"),
    (
        "runs_pause_reason",
        f"UPDATE runs SET pause_reason = 'odd', pause_detail = 'why' {READY_RUN}",
    ),
    ("runs_pause_in_words", f"UPDATE runs SET pause_reason = 'stall' {READY_RUN}"),
    ("runs_work", f"UPDATE runs SET work = 'odd' {READY_RUN}"),
    ("runs_held_has_holder", f"UPDATE runs SET holder = 'wrk_x' {READY_RUN}"),
    ("runs_held_has_holder", f"UPDATE runs SET work = 'held' {READY_RUN}"),
    ("runs_work_is_active", f"UPDATE runs SET work = 'ready' {DONE_RUN}"),
    ("runs_work_is_active", f"UPDATE runs SET status = 'queued' {READY_RUN}"),
    ("runs_calls_are_open", f"UPDATE runs SET work = 'calls' {READY_RUN}"),
    ("runs_counters", f"UPDATE runs SET open_calls = -1 {READY_RUN}"),
    ("runs_counters", f"UPDATE runs SET unknowns = -1 {READY_RUN}"),
    ("runs_completed_has_answer", f"UPDATE runs SET answer = NULL {DONE_RUN}"),
    ("runs_completed_has_answer", f"UPDATE runs SET unknowns = 1 {DONE_RUN}"),
    ("runs_completed_has_answer", f"UPDATE runs SET open_calls = 1 {DONE_RUN}"),
    ("runs_reason_of_status", f"UPDATE runs SET reason = 'stall' {READY_RUN}"),
    (
        "runs_reason_of_status",
        f"UPDATE runs SET status = 'paused', work = 'none', settled_at = now() {READY_RUN}",
    ),
    ("runs_settled", f"UPDATE runs SET settled_at = now() {READY_RUN}"),
    ("runs_settled", f"UPDATE runs SET settled_at = NULL {DONE_RUN}"),
    ("threads_visibility", "UPDATE threads SET visibility = 'odd'"),
    ("run_specs_policy_sha", "UPDATE run_specs SET policy = '{}'"),
    ("run_specs_tools_sha", "UPDATE run_specs SET tools = '[1]'"),
    ("run_specs_traceparent", "UPDATE run_specs SET traceparent = 'odd'"),
    ("run_specs_window", "UPDATE run_specs SET window_tokens = 0"),
    ("run_specs_window", "UPDATE run_specs SET reserve_tokens = 0"),
    ("summaries_kind", SUMMARY.format(number=1, previous="NULL", attempt="1", kind="odd")),
    (
        "summaries_written_by",
        SUMMARY.format(number=1, previous="NULL", attempt="NULL", kind="summary"),
    ),
    ("summaries_previous", SUMMARY.format(number=2, previous="NULL", attempt="1", kind="trim")),
    ("run_specs_wire", "UPDATE run_specs SET wire = 'odd'"),
    ("entries_kind", "UPDATE entries SET kind = 'odd'"),
    (
        "model_calls_state",
        f"UPDATE model_calls SET state = 'odd', closed_at = now() {OPEN_ATTEMPT}",
    ),
    ("model_calls_purpose", "UPDATE model_calls SET purpose = 'odd'"),
    ("model_calls_decision", f"UPDATE model_calls SET decision = 'odd' {CLOSED_ATTEMPT}"),
    ("model_calls_decided_is_closed", f"UPDATE model_calls SET decision = 'pause' {OPEN_ATTEMPT}"),
    ("model_calls_closed_has_reply", f"UPDATE model_calls SET reply = NULL {CLOSED_ATTEMPT}"),
    ("model_calls_closed_at", f"UPDATE model_calls SET closed_at = now() {OPEN_ATTEMPT}"),
    ("model_calls_closed_at", f"UPDATE model_calls SET closed_at = NULL {CLOSED_ATTEMPT}"),
    ("calls_effect", f"UPDATE calls SET effect = 'odd' {READY_CALL}"),
    ("calls_placement", f"UPDATE calls SET placement = 'odd' {READY_CALL}"),
    ("calls_state", f"UPDATE calls SET state = 'odd' {READY_CALL}"),
    ("calls_mutation_is_task", f"UPDATE calls SET placement = 'inline' {SENT}"),
    ("calls_started_has_holder", f"UPDATE calls SET holder = NULL {SENT}"),
    ("calls_started_has_holder", f"UPDATE calls SET started_at = NULL {SENT}"),
    ("calls_started_has_holder", f"UPDATE calls SET attempt = 0 {SENT}"),
    ("calls_deadline", f"UPDATE calls SET deadline_at = NULL {SENT}"),
    ("calls_change_has_resource_key", f"UPDATE calls SET resource_key = NULL {SENT}"),
    (
        "calls_change_has_resource_key",
        "UPDATE calls SET resource_key = 'a file' WHERE effect = 'read'",
    ),
    ("calls_mutation_once", f"UPDATE calls SET attempt = 2 {SENT}"),
    ("calls_settled", f"UPDATE calls SET settled_at = now() {READY_CALL}"),
    ("calls_settled", f"UPDATE calls SET settled_at = NULL {REFUSED_CALL}"),
    ("calls_args_known", f"UPDATE calls SET args_text = NULL, args_sha = NULL {READY_CALL}"),
    ("calls_args_sha", f"UPDATE calls SET args_text = '{{}}' {READY_CALL}"),
    ("calls_args_sha", f"UPDATE calls SET args_sha = NULL {READY_CALL}"),
    ("receipts_outcome", "UPDATE receipts SET outcome = 'odd', closed_at = now()"),
    ("receipts_closed", "UPDATE receipts SET outcome = 'done'"),
    ("receipts_closed", "UPDATE receipts SET closed_at = now()"),
    ("receipts_args_sha", "UPDATE receipts SET args_text = '{}'"),
    ("evidence_sha256", "UPDATE evidence SET body = '{}'"),
    ("evidence_has_text", "UPDATE evidence SET body = NULL"),
    ("evidence_chunks_place", CHUNK.format(char=-1, line=0, body="x")),
    ("evidence_chunks_place", CHUNK.format(char=1, line=2, body="x")),
    ("evidence_chunks_place", CHUNK.format(char=1, line=-1, body="x")),
    ("evidence_chunks_place", CHUNK.format(char=0, line=0, body="")),
    ("pictures_media_type", PICTURE.format(kind="image/svg+xml", sha="sha256('x')")),
    ("pictures_sha256", PICTURE.format(kind="image/png", sha="'x'")),
    ("deliveries_kind", "UPDATE deliveries SET kind = 'odd'"),
    ("deliveries_state", "UPDATE deliveries SET state = 'odd'"),
    ("receipts_verified", f"UPDATE receipts SET {UNKNOWN}, {SAID}, verified = 'odd'"),
    ("receipts_verified_by_somebody", f"UPDATE receipts SET {UNKNOWN}, verified = 'partial'"),
    ("receipts_verified_is_unknown", f"UPDATE receipts SET {SAID}, verified = 'partial'"),
    ("receipts_late_outcome", f"UPDATE receipts SET {UNKNOWN}, {SAID}, {WORD}, late_outcome = 'x'"),
    ("receipts_late_is_verified", "UPDATE receipts SET late_outcome = 'done'"),
    ("steers_mode", "UPDATE steers SET mode = 'odd'"),
    ("steers_state", "UPDATE steers SET state = 'odd', settled_at = now()"),
    ("steers_settled", "UPDATE steers SET state = 'applied'"),
    ("calls_refresh", f"UPDATE calls SET refreshes = 'call_1' {READY_CALL}"),
    ("calls_refresh", f"UPDATE calls SET position = -1 {READY_CALL}"),
    (
        "calls_refresh_reads",
        f"UPDATE calls SET position = -1, refreshes = 'call_1', refresh_no = 1 {SENT}",
    ),
    (
        "given_sources_gap",
        "INSERT INTO given_sources VALUES"
        " ('run_1', 'note:1', 0, 'acme', 'thr_1', 1, 'ann', NULL, 'odd', '', 0, 1)",
    ),
    (
        "given_sources_shown",
        "INSERT INTO given_sources VALUES"
        " ('run_1', 'note:1', 0, 'acme', 'thr_1', 1, 'ann', NULL, NULL, '', 0, 1)",
    ),
    (
        "sources_counted",
        "INSERT INTO sources (tenant, source, seq, is_deleted, reason, told_seq)"
        " VALUES ('acme', 'file:/a', 1, false, '', 2)",
    ),
    ("calls_asked", f"UPDATE calls SET state = 'awaiting_approval' {READY_CALL}"),
    ("calls_approved_first", f"UPDATE calls SET needs_approval = true {READY_CALL}"),
    (
        "calls_approved_sha",
        f"UPDATE calls SET needs_approval = true, approved_sha = '\\x00', {UNTIL} {READY_CALL}",
    ),
    (
        "calls_approved_sha",
        f"UPDATE calls SET needs_approval = true, approved_sha = args_sha {READY_CALL}",
    ),
    ("calls_approved_sha", f"UPDATE calls SET approved_sha = args_sha, {UNTIL} {READY_CALL}"),
    ("runs_open_approvals", f"UPDATE runs SET open_approvals = 1 {READY_RUN}"),
    ("runs_open_approvals", f"UPDATE runs SET status = 'waiting', {ASKING} {READY_RUN}"),
    ("authority_scope", "INSERT INTO authority VALUES ('a', 1, 'odd', 'x', 'deny', 'ann', '')"),
    ("authority_permission", "INSERT INTO authority VALUES ('a', 1, 'tool', 'x', 'no', 'ann', '')"),
    ("authority_name", "INSERT INTO authority VALUES ('a', 1, 'tool', '', 'deny', 'ann', '')"),
    ("authority_name", "INSERT INTO authority VALUES ('a', 1, 'tenant', 'x', 'deny', 'ann', '')"),
    ("approvals_word", APPROVAL.format(word="odd", by="'ann'")),
    ("approvals_said_by", APPROVAL.format(word="granted", by="NULL")),
    ("approvals_said_by", APPROVAL.format(word="expired", by="'ann'")),
    ("tallies_grows", "INSERT INTO tallies VALUES ('odd', '{}', -1)"),
]


@pytest.fixture
def rows(database: Database) -> Database:
    """One row of every kind: ready, held, with calls, completed."""
    steer_run(database, a_run(database).run_id, OWNER, "Use staging.", "append")
    claimed(database)
    commit_answer(database, claimed(database), an_exchange(), Answer("Hello."))
    step = dispatched(database, CHANGE, READ, REFUSED)
    started(database, step.calls[0])
    return database


@pytest.mark.parametrize(("name", "sql"), CASES, ids=[f"{name}-{sql[7:]}" for name, sql in CASES])
def test_the_tables_refuse(rows: Database, name: str, sql: str) -> None:
    with pytest.raises(InvariantBroken, match=f'"{name}"'):
        change(rows, sql)


def test_every_check_of_the_tables_has_been_tried(rows: Database) -> None:
    found = query(
        rows,
        "SELECT conname FROM pg_constraint WHERE contype = 'c'"
        " AND connamespace = 'public'::regnamespace",
    )
    assert {row["conname"] for row in found} == {name for name, _ in CASES}


@pytest.mark.parametrize(
    ("name", "sql"),
    [
        (
            "runs_one_active_uq",
            "UPDATE runs SET thread_id = (SELECT thread_id FROM runs WHERE work = 'ready')"
            " WHERE work = 'held'",
        ),
        (
            "model_calls_one_decision_uq",
            "INSERT INTO model_calls (run_id, step, attempt, tenant, fence, holder, state, reply,"
            " decision, closed_at) SELECT run_id, step, 9, tenant, fence, holder, state, reply,"
            " 'dispatch', closed_at FROM model_calls WHERE decision = 'answer'",
        ),
        ("calls_run_id_step_position_uq", "UPDATE calls SET position = 1"),
        ("receipts_pk", "INSERT INTO receipts SELECT * FROM receipts"),
        ("evidence_pk", "INSERT INTO evidence SELECT * FROM evidence"),
        (
            "deliveries_run_id_destination_uq",
            "INSERT INTO deliveries (id, tenant, run_id, recipient, destination, kind, state, body)"
            " SELECT id || '2', tenant, run_id, recipient, destination, kind, state, body"
            " FROM deliveries",
        ),
        ("events_pk", "INSERT INTO events SELECT * FROM events"),
    ],
)
def test_the_tables_refuse_a_second(rows: Database, name: str, sql: str) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation, match=f'"{name}"'):
        change(rows, sql)
