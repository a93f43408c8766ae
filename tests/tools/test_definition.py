import datetime
import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import umbel
from tools.definition import Tool, from_function
from umbel.errors import InvalidInput, Misconfigured

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


def nothing() -> None:
    """Do nothing."""


class Item(BaseModel):
    name: str
    price: float


@umbel.tool(effect="read", placement="inline", version="3", stall_seconds=7, repeatable=True)
def order(
    context: umbel.ToolContext,
    schema: str,
    due: datetime.date,
    items: list[Item],
    mode: Literal["fast", "slow"] = "fast",
    count: Annotated[int, Field(ge=1, le=9)] = 3,
) -> str:
    """Order things.

    A second paragraph.

    Args:
        context: not an argument.
        schema: Which schema,
            on two lines.
        due (date): The day.

    Returns:
        Nothing of interest to a model.
    """
    return f"{context.run_id}{schema}{due}{items}{mode}{count}"


def test_name_and_description_come_from_the_function() -> None:
    tool = from_function(order)
    assert tool.name == "order"
    assert tool.description == "Order things.\n\nA second paragraph."


def test_the_schema_is_closed_and_says_what_is_required_and_what_arguments_mean() -> None:
    schema = from_function(order).input_schema
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["schema", "due", "items"]
    assert schema["properties"]["schema"] == {
        "type": "string",
        "description": "Which schema, on two lines.",
    }
    assert schema["properties"]["due"]["description"] == "The day."
    assert schema["properties"]["mode"]["enum"] == ["fast", "slow"]
    assert schema["properties"]["count"]["maximum"] == 9


def test_the_context_is_no_argument() -> None:
    tool = from_function(order)
    assert "context" not in tool.input_schema["properties"]
    assert tool.context_name == "context"


def test_a_parameter_of_any_name_is_the_context_if_it_is_annotated_so() -> None:
    @umbel.tool(effect="read")
    def peek(around: umbel.ToolContext | None, context: str) -> str:
        """Peek."""
        return f"{around}{context}"

    tool = from_function(peek)
    assert tool.context_name == "around"
    assert list(tool.input_schema["properties"]) == ["context"]


def test_a_tool_without_arguments_has_an_empty_closed_schema() -> None:
    tool = from_function(umbel.tool(effect="read")(nothing))
    assert tool.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


def test_the_frozen_form_holds_what_a_run_must_remember_and_is_a_copy() -> None:
    tool = from_function(order)
    frozen = tool.frozen()
    assert set(frozen) == {
        "name",
        "description",
        "input_schema",
        "effect",
        "placement",
        "version",
        "stall_seconds",
        "repeatable",
    }
    assert (frozen["version"], frozen["stall_seconds"], frozen["repeatable"]) == ("3", 7, True)
    frozen["input_schema"]["properties"].clear()
    assert tool.frozen()["input_schema"]["properties"]


def test_a_tool_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        from_function(order).name = "other"  # type: ignore[misc]


def test_arguments_arrive_as_the_declared_types_and_defaults_are_left_to_the_function() -> None:
    typed = from_function(order).typed
    assert typed is not None
    parsed = typed.parse('{"schema":"s","due":"2026-01-02","items":[{"name":"a","price":1}]}')
    assert parsed == {
        "schema": "s",
        "due": datetime.date(2026, 1, 2),
        "items": [Item(name="a", price=1.0)],
    }


@pytest.mark.parametrize("count", ["true", "1.0", '"1"', "null", "10"])
def test_typed_parsing_never_coerces(count: str) -> None:
    typed = from_function(order).typed
    assert typed is not None
    with pytest.raises(InvalidInput, match="count: "):
        typed.parse(f'{{"schema":"s","due":"2026-01-02","items":[],"count":{count}}}')


def test_a_typed_fault_does_not_repeat_the_value() -> None:
    typed = from_function(order).typed
    assert typed is not None
    with pytest.raises(InvalidInput) as caught:
        typed.parse('{"schema":"s","due":"secret-text","items":[]}')
    assert "secret-text" not in str(caught.value)


def positional_only(a: int, /) -> int:
    """Fault."""
    return a


def any_number(*names: str) -> str:
    """Fault."""
    return "".join(names)


def any_names(**names: str) -> str:
    """Fault."""
    return "".join(names)


def unannotated(a) -> str:  # type: ignore[no-untyped-def]
    """Fault."""
    return str(a)


def unreadable(a: "Missing") -> str:  # type: ignore[name-defined]  # noqa: F821
    """Fault."""
    return str(a)


def untypable(a: Callable[[], int]) -> int:
    """Fault."""
    return a()


def arbitrary(a: pytest.Item) -> str:
    """Fault."""
    return str(a)


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (positional_only, "remove the `/`"),
        (any_number, "declare one list argument"),
        (any_names, "declare each argument"),
        (unannotated, "annotate it"),
        (unreadable, "import the name when the module runs"),
        (untypable, "use"),
        (arbitrary, "use"),
    ],
)
def test_a_signature_no_json_object_can_fill_is_refused_with_a_remedy(
    function: Callable[..., object], remedy: str
) -> None:
    with pytest.raises(Misconfigured) as caught:
        from_function(umbel.tool(effect="read")(function))
    assert function.__name__ in str(caught.value)
    assert remedy in str(caught.value)


def test_a_function_that_is_not_marked_is_refused() -> None:
    def plain() -> None:
        """Not a tool."""

    with pytest.raises(Misconfigured, match="mark it with"):
        from_function(plain)


def test_a_function_without_docstring_is_refused() -> None:
    @umbel.tool(effect="read")
    def silent() -> None: ...

    with pytest.raises(Misconfigured, match="no docstring"):
        from_function(silent)


def test_an_asynchronous_function_is_refused() -> None:
    @umbel.tool(effect="read")
    async def later() -> None:
        """Later."""

    with pytest.raises(Misconfigured, match="async"):
        from_function(later)


def test_an_undeclared_effect_is_a_mutation_and_a_task() -> None:
    tool = from_function(umbel.tool()(nothing))
    assert (tool.effect, tool.placement) == ("mutation", "task")


def build(**changes: Any) -> Tool:
    values: dict[str, Any] = {
        "name": "a_tool",
        "description": "Do something.",
        "input_schema": OBJECT,
        "function": nothing,
        "effect": "read",
        **changes,
    }
    return Tool(**values)


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"name": ""}, "1 to 64"),
        ({"name": "a b"}, "1 to 64"),
        ({"name": "a\n"}, "1 to 64"),
        ({"name": "ä"}, "1 to 64"),
        ({"name": "x" * 65}, "1 to 64"),
        ({"description": "  "}, "description"),
        ({"effect": "write"}, "effect 'write'"),
        ({"placement": "thread"}, "placement 'thread'"),
        ({"effect": "mutation", "placement": "inline"}, "mutation always"),
        ({"version": ""}, "version"),
        ({"version": "v" * 65}, "version"),
        ({"stall_seconds": 0}, "stall_seconds"),
        ({"stall_seconds": -1.0}, "stall_seconds"),
        ({"stall_seconds": math.inf}, "stall_seconds"),
        ({"stall_seconds": math.nan}, "stall_seconds"),
        ({"stall_seconds": True}, "stall_seconds"),
        ({"stall_seconds": "60"}, "stall_seconds"),
        ({"input_schema": {"type": "array"}}, '"type": "object"'),
        ({"input_schema": {}}, '"type": "object"'),
        ({"input_schema": {"type": "object", "properties": 3}}, "no valid JSON Schema"),
        ({"input_schema": {"type": "object", "minProperties": "two"}}, "no valid JSON Schema"),
        ({"input_schema": {"type": "object", "default": {1, 2}}}, "not plain JSON"),
        ({"input_schema": {"type": "object", "default": math.nan}}, "not plain JSON"),
        (
            {"input_schema": {"type": "object", "$ref": "https://example.com/a.json"}},
            "nothing is fetched",
        ),
        ({"input_schema": {"type": "object", "$ref": "other.json"}}, "nothing is fetched"),
        ({"input_schema": {"type": "object", "$ref": "#/$defs/gone"}}, "leads nowhere"),
        (
            {"input_schema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/gone"}}}},
            "leads nowhere",
        ),
        ({"input_schema": {"type": "object", "$ref": "#"}}, "leads nowhere or to itself"),
    ],
)
def test_a_tool_that_cannot_work_is_refused_when_it_is_built(
    changes: dict[str, Any], fact: str
) -> None:
    with pytest.raises(Misconfigured) as caught:
        build(**changes)
    assert fact in str(caught.value)


def test_a_function_without_a_signature_can_be_a_tool() -> None:
    assert build(function=dict).context_name is None


def test_a_recursive_schema_is_fine_as_long_as_it_goes_down() -> None:
    schema = {"type": "object", "properties": {"inner": {"$ref": "#"}}}
    assert build(input_schema=schema).input_schema == schema


def test_a_property_may_be_called_like_a_keyword() -> None:
    schema = {"type": "object", "properties": {"$schema": {"type": "string"}}}
    assert build(input_schema=schema).name == "a_tool"
