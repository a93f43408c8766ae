import json

import pytest

import umbel
from loop.outcome import Errored, Returned, Unknown
from tools.definition import from_function
from tools.execution import run_tool
from tools.resources import MAX_CHARS, MAX_RESOURCES
from tools.trial import TrialContext
from umbel.errors import InvalidInput, Misconfigured

COUNT = {"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]}


@umbel.tool(effect="read", output_schema=COUNT)
def counted(words: str) -> dict[str, str | int]:
    """Count."""
    return {"words": int(words) if words.isdigit() else words}


@umbel.tool(effect="mutation", output_schema=COUNT)
def changed(words: str) -> dict[str, str]:
    """Change something."""
    return {"words": words}


@umbel.tool(effect="mutation")
def created(context: umbel.ToolContext, name: str) -> str:
    """Make something outside."""
    context.record_resource(name)
    return "made"


def test_a_result_that_fits_is_returned() -> None:
    outcome = run_tool(from_function(counted), '{"words":"3"}', TrialContext())
    assert outcome == Returned('{"words":3}')


def test_a_read_that_breaks_its_promise_ends_as_an_error() -> None:
    outcome = run_tool(from_function(counted), '{"words":"many"}', TrialContext())
    assert isinstance(outcome, Errored)
    assert json.loads(outcome.text)["error"]["code"] == "invalid_output"
    assert "words" in outcome.text


def test_a_change_that_breaks_its_promise_has_an_unknown_outcome() -> None:
    outcome = run_tool(from_function(changed), '{"words":"many"}', TrialContext())
    assert isinstance(outcome, Unknown)


def test_the_promise_is_frozen_into_the_run_and_only_if_there_is_one() -> None:
    assert from_function(counted).frozen()["output_schema"] == COUNT
    assert "output_schema" not in from_function(created).frozen()


def test_a_promise_that_is_no_schema_is_refused_at_the_start() -> None:
    @umbel.tool(effect="read", output_schema={"type": "nonsense"})
    def broken() -> int:
        """Do nothing."""
        return 1

    with pytest.raises(Misconfigured, match="output_schema is no JSON Schema"):
        from_function(broken)


def test_a_change_names_what_it_made() -> None:
    context = TrialContext()
    assert isinstance(run_tool(from_function(created), '{"name":"INV-7"}', context), Returned)
    assert context.resources == ["INV-7"]


@pytest.mark.parametrize("wrong", ["", "x" * (MAX_CHARS + 1), "a\x00b", "a\nb"])
def test_an_id_that_cannot_be_kept_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput, match="printable"):
        TrialContext().record_resource(wrong)


def test_there_is_an_end_to_the_ids_of_one_call() -> None:
    context = TrialContext()
    for number in range(MAX_RESOURCES):
        context.record_resource(str(number))
    with pytest.raises(InvalidInput, match="100"):
        context.record_resource("one more")
