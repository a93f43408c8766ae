import json
import re
from itertools import pairwise

import pytest
from pydantic import ValidationError

from umbel.contracts import Frozen, Principal, new_id


class Thing(Frozen):
    name: str
    size: int
    parts: tuple[str, ...] = ()


def test_ids_have_their_prefix_and_never_repeat() -> None:
    ids = [new_id("run") for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"run_[0-9a-hjkmnp-tv-z]{26}", value) for value in ids)


def test_ids_sort_by_the_millisecond_in_which_they_were_made() -> None:
    ids = [new_id("run") for _ in range(20_000)]
    milliseconds = [value[:14] for value in ids]
    assert milliseconds == sorted(milliseconds)
    assert len(set(milliseconds)) > 1, "the test spans more than one moment"
    changes = [pair for pair in pairwise(ids) if pair[0][:14] != pair[1][:14]]
    assert all(earlier < later for earlier, later in changes)


def test_what_is_stored_reads_back_the_same() -> None:
    thing = Thing(name="{x} é 😀", size=3, parts=("a", "b"))
    assert Thing.model_validate_json(thing.model_dump_json()) == thing


@pytest.mark.parametrize(
    "text",
    [
        '{"name":"a","size":"3"}',
        '{"name":"a","size":3.0}',
        '{"name":"a","size":true}',
        '{"name":"a","size":3,"more":1}',
        '{"name":null,"size":3}',
        '{"name":"a"}',
        "[]",
        "",
    ],
)
def test_nothing_is_guessed_from_a_text_that_does_not_fit(text: str) -> None:
    with pytest.raises(ValidationError):
        Thing.model_validate_json(text)


def test_values_cannot_be_changed() -> None:
    principal = Principal(tenant="acme", user="ann")
    with pytest.raises(ValidationError):
        setattr(principal, "user", "eve")  # noqa: B010 - the type checker refuses it already
    assert json.loads(principal.model_dump_json()) == {"tenant": "acme", "user": "ann"}
