"""Headers are taken strictly or not at all, and ids follow from the record."""

import logging

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from models.database import Database
from tasks.acceptance import AgentSpec, NewRequest, accept
from tasks.traceparent import (
    current_traceparent,
    derived_span_id,
    derived_trace_id,
    parse_traceparent,
)
from tests.factories import OWNER
from tests.models.story import query
from tools.registry import ToolRegistry

GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
WRONG = [
    "",
    "00",
    GOOD.upper(),
    GOOD.replace("00-", "01-", 1),
    GOOD.replace("00-", "ff-", 1),
    GOOD + "-00",
    GOOD + "\n",
    " " + GOOD,
    GOOD.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
    GOOD.replace("b7ad6b7169203331", "0" * 16),
    GOOD.replace("0af7", "0ag7"),
    GOOD.replace("-01", "-1"),
    GOOD.replace("0af7", "\u0660af7"),
]


def accepted_with(database: Database, traceparent: str) -> object:
    request = NewRequest(OWNER, "Go.", "scripted", traceparent=traceparent)
    run = accept(database, ToolRegistry(()), AgentSpec(), request)
    [row] = query(
        database, "SELECT traceparent FROM run_specs WHERE run_id = %(id)s", id=run.run_id
    )
    return row["traceparent"]


def test_a_header_reads_back_as_it_was_written() -> None:
    place = parse_traceparent(GOOD)
    assert place is not None
    assert str(place) == GOOD
    assert place.flags == 1


@pytest.mark.parametrize("header", WRONG)
def test_a_header_that_is_not_well_formed_is_none(header: str) -> None:
    assert parse_traceparent(header) is None


def test_the_record_keeps_a_good_header(database: Database) -> None:
    assert accepted_with(database, GOOD) == GOOD


def test_a_wrong_header_costs_a_log_line_without_it_and_no_run(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert accepted_with(database, "00-planted\nline") is None
    assert [record.message for record in caplog.records] == ["traceparent ignored"]
    assert "planted" not in caplog.text


def test_the_callers_open_span_is_found_and_no_span_is_none() -> None:
    assert current_traceparent() is None
    place = parse_traceparent(GOOD)
    assert place is not None
    span = SpanContext(place.trace_id, place.span_id, is_remote=False, trace_flags=TraceFlags(1))
    with use_span(NonRecordingSpan(span)):
        assert current_traceparent() == GOOD


def test_derived_ids_are_the_same_for_ever_and_differ_by_what_they_name() -> None:
    assert f"{derived_trace_id('run_1'):032x}" == "c3b2fa0b242fc5189c6c3738303b4548"
    assert f"{derived_span_id('run', 'run_1', 0):016x}" == "2a1723897eab3a5d"
    ids = {derived_span_id(kind, "run_1", n) for kind in ("run", "chat") for n in range(3)}
    assert len(ids) == 6
