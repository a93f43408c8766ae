"""Long results: what is written while a call runs counts once its evidence names it."""

import hashlib
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from loop.outcome import Chunked, Returned
from loop.pictures import Picture
from models.calls import Started, settle
from models.captures import add_chunk, add_picture, sweep_captures
from models.database import Database
from models.diagnosis import Rows
from models.evidence import ThreadEvidence
from models.evidence_check import check_results
from models.handing_back import hand_back_read
from tests.invariants import violations
from tests.models.story import (
    CHANGE,
    OTHER,
    READ,
    change,
    dispatched,
    made_unknown,
    query,
    started,
)
from umbel.contracts import ThreadId
from umbel.errors import InvalidInput, InvariantBroken, NotFound
from umbel.json_text import after_line_end, count_line_ends

CAPTURE = "cap_1"
PNG = Picture("image/png", b"\x89PNG\r\n\x1a\n")


def written(database: Database, proof: Started, parts: list[str], capture: str = CAPTURE) -> bool:
    """Every part was written as a chunk."""
    place = lines = 0
    for part in parts:
        if not add_chunk(database, proof, capture, start_char=place, start_line=lines, body=part):
            return False
        place, lines = place + len(part), lines + count_line_ends(part)
    return True


def outcome_of(parts: list[str], capture: str = CAPTURE) -> Returned:
    whole = "".join(parts)
    sha = hashlib.sha256(whole.encode()).hexdigest()
    return Returned(parts[0], capture_id=capture, chunked=Chunked(len(whole), sha))


def a_long_result(database: Database, parts: list[str], capture: str = CAPTURE) -> Started:
    proof = started(database, dispatched(database, READ).calls[0])
    assert written(database, proof, parts, capture)
    assert settle(database, proof, outcome_of(parts, capture), "view") is not None
    return proof


def reader(database: Database, proof: Started, **other: Any) -> ThreadEvidence:
    own = {"thread_id": proof.call.thread_id, "tenant": proof.call.tenant} | other
    return ThreadEvidence(database, ThreadId(own["thread_id"]), own["tenant"])


def count(database: Database, table: str) -> int:
    [row] = query(database, f"SELECT count(*) AS n FROM {table}")
    return int(row["n"])


PARTS = ['"one\\ntwo', "\\nthr", 'ee\\n\\nfive"']


def test_pages_of_a_chunked_result_are_the_result(database: Database) -> None:
    proof, whole = a_long_result(database, PARTS), "".join(PARTS)
    pages = reader(database, proof)
    sha = hashlib.sha256(whole.encode()).hexdigest()
    [stored] = query(database, "SELECT stored_at FROM evidence")
    for limit in (1, 3, 8, 100):
        text, offset = "", 0
        while True:
            page = pages.read(proof.call.call_id, offset, limit)
            assert (page.offset, page.total_chars, page.sha256) == (offset, len(whole), sha)
            assert page.captured_at == stored["stored_at"]
            assert page.text == whole[offset : offset + limit]
            text += page.text
            if page.next_offset is None:
                break
            offset = page.next_offset
        assert text == whole
    assert pages.read(proof.call.call_id, len(whole), 5).text == ""


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    cuts=st.sets(st.integers(1, 199), max_size=9),
    offset=st.integers(0, 200),
    limit=st.integers(1, 250),
    line=st.integers(1, 30),
)
def test_a_page_and_a_line_are_the_same_however_the_result_was_cut(
    database: Database, cuts: set[int], offset: int, limit: int, line: int
) -> None:
    whole = ("é\\n" + "x" * 7) * 20
    places = [0, *sorted(place for place in cuts if whole[place - 1] != "\\"), len(whole)]
    parts = [whole[a:b] for a, b in pairwise(places)]
    capture = f"cap_{count(database, 'captures')}"
    proof = a_long_result(database, parts, capture)
    pages = reader(database, proof)
    assert pages.read(proof.call.call_id, offset, limit).text == whole[offset : offset + limit]
    expected = 0 if line == 1 else after_line_end(whole, line - 1)
    assert pages.find_line(proof.call.call_id, line) == expected


def test_lines_of_a_short_result_are_found_too(database: Database) -> None:
    proof = started(database, dispatched(database, READ).calls[0])
    settle(database, proof, Returned(json.dumps("a\nb\\n\nc")), "view")
    pages = reader(database, proof)
    assert [pages.find_line(proof.call.call_id, line) for line in (1, 2, 3, 4)] == [0, 4, 10, None]


def test_bad_places_are_refused_in_words(database: Database) -> None:
    proof = a_long_result(database, PARTS)
    pages, handle = reader(database, proof), proof.call.call_id
    with pytest.raises(InvalidInput, match="behind the end; the result has 25 characters"):
        pages.read(handle, 26, 1)
    with pytest.raises(InvalidInput, match="behind the end"):
        pages.read(handle, 10**15, 10**15)
    with pytest.raises(InvalidInput, match="give 0 or more"):
        pages.read(handle, -1, 1)
    with pytest.raises(InvalidInput, match="counted from 1"):
        pages.find_line(handle, 0)
    assert pages.find_line(handle, 10**15) is None


@pytest.mark.parametrize("other", [{"thread_id": "thr_other"}, {"tenant": "other"}])
def test_a_handle_of_somebody_else_is_no_handle(database: Database, other: dict[str, str]) -> None:
    proof = a_long_result(database, PARTS)
    pages = reader(database, proof, **other)
    for look in (lambda h: pages.read(h, 0, 10), lambda h: pages.find_line(h, 1)):
        with pytest.raises(NotFound, match="no stored result"):
            look(proof.call.call_id)
    with pytest.raises(NotFound):
        pages.find_line(proof.call.call_id, 2)


def test_a_chunk_written_twice_is_one_chunk(database: Database) -> None:
    proof = started(database, dispatched(database, READ).calls[0])
    assert written(database, proof, PARTS)
    assert written(database, proof, PARTS)
    assert count(database, "evidence_chunks") == 3


def test_what_is_written_moves_the_deadline(database: Database) -> None:
    proof = started(database, dispatched(database, CHANGE).calls[0])
    change(database, "UPDATE calls SET deadline_at = now()")
    assert written(database, proof, PARTS[:1])
    [row] = query(
        database, "SELECT deadline_at > now() + interval '29 seconds' AS moved FROM calls"
    )
    assert row["moved"]


def test_only_the_holder_of_the_attempt_writes(database: Database) -> None:
    proof = started(database, dispatched(database, READ).calls[0])
    assert not written(database, replace(proof, worker=OTHER), PARTS)
    assert not written(database, replace(proof, attempt=2), PARTS)
    assert not add_picture(database, replace(proof, attempt=2), CAPTURE, number=1, picture=PNG)
    assert count(database, "captures") == 0
    settle(database, proof, Returned("1"), "1")
    assert not written(database, proof, PARTS)
    assert count(database, "captures") == 0


def test_what_a_lost_attempt_wrote_is_not_seen_and_is_swept(database: Database) -> None:
    proof = started(database, dispatched(database, READ).calls[0])
    assert written(database, proof, ['"old', ' old"'], "cap_old")
    assert hand_back_read(database, proof)
    again = started(database, proof.call.call_id, OTHER)
    assert again.attempt == proof.attempt, "a handed back attempt gives its number away"
    assert written(database, again, PARTS, "cap_new")
    assert not written(database, proof, ['"old', ' old"'], "cap_old"), "a zombie writes nothing"
    assert sweep_captures(database, limit=10) == 0, "the call is still open"
    assert settle(database, proof, outcome_of(['"old', ' old"'], "cap_old"), "view") is None
    assert settle(database, again, outcome_of(PARTS, "cap_new"), "view") is not None
    page = reader(database, again).read(again.call.call_id, 0, 100)
    assert page.text == "".join(PARTS)
    assert sweep_captures(database, limit=10) == 1
    assert sweep_captures(database, limit=10) == 0
    assert count(database, "evidence_chunks") == 3
    assert reader(database, again).read(again.call.call_id, 0, 100) == page


def test_a_change_writes_on_while_nobody_knows_its_outcome(database: Database) -> None:
    proof = started(database, dispatched(database, CHANGE).calls[0])
    assert written(database, proof, PARTS[:1])
    change(database, "UPDATE calls SET deadline_at = now() - interval '1 minute'")
    assert made_unknown(database, proof.call.call_id) is not None
    assert sweep_captures(database, limit=10) == 0, "it may still report what it did"
    assert written(database, proof, PARTS)
    assert settle(database, proof, outcome_of(PARTS), "view") is not None
    assert reader(database, proof).read(proof.call.call_id, 0, 100).text == "".join(PARTS)


def test_a_capture_without_evidence_cannot_be_kept_by_a_late_settle(database: Database) -> None:
    proof = started(database, dispatched(database, READ).calls[0])
    assert written(database, proof, PARTS)
    settle(database, proof, Returned("1"), "1")
    assert settle(database, proof, outcome_of(PARTS), "view") is None
    [row] = query(database, "SELECT is_kept FROM captures")
    assert not row["is_kept"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE evidence SET view = 'forged'",
        "UPDATE evidence SET total_chars = 1",
        "UPDATE evidence SET capture_id = NULL, body = '1', sha256 = sha256('1'::bytea)",
        "UPDATE evidence_chunks SET body = 'forged'",
        "UPDATE evidence_chunks SET start_line = 0",
        "UPDATE pictures SET media_type = 'image/gif'",
    ],
)
def test_what_was_stored_is_never_changed(database: Database, statement: str) -> None:
    proof = started(database, dispatched(database, READ).calls[0])
    assert written(database, proof, PARTS)
    assert add_picture(database, proof, CAPTURE, number=1, picture=PNG)
    settle(database, proof, outcome_of(PARTS), "view")
    with pytest.raises(InvariantBroken, match="is never changed"):
        database.run((statement, {}))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE evidence_chunks SET body = replace(body, 'x', 'y')",
        "DELETE FROM evidence_chunks WHERE start_char > 9",
        "DELETE FROM evidence_chunks WHERE start_char = 0",
        "DELETE FROM evidence_chunks",
        "UPDATE evidence_chunks SET start_char = start_char + 1 WHERE start_char > 9",
        "UPDATE captures SET is_kept = false",
        "DELETE FROM captures",
        "UPDATE evidence SET sha256 = sha256('y'::bytea)",
    ],
)
def test_a_result_that_is_not_what_its_hash_says_is_found(
    database: Database, statement: str
) -> None:
    proof = a_long_result(database, ['"xé', "xx", 'x"'])
    assert violations(database, at_rest=False) == []
    with database.begin() as connection:
        for name in ("evidence", "evidence_chunks"):
            connection.execute(text(f"ALTER TABLE {name} DISABLE TRIGGER USER"))
        connection.execute(text(statement.replace("> 9", "> 3")))
        assert check_results(connection).rows == Rows(1, (proof.call.call_id,))
        connection.rollback()


def test_a_capture_that_no_evidence_names_is_found(database: Database) -> None:
    proof = a_long_result(database, PARTS)
    change(database, "UPDATE captures SET call_id = 'call_other'")
    assert any(proof.call.call_id in line for line in violations(database, at_rest=False))
