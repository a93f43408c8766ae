"""A tool function's signature as a strict model of its arguments.

The schema the model sees and the typed values the function is called with come from one place.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from umbel.errors import InvalidInput, Misconfigured
from umbel.tool import ToolContext

MAX_PROBLEMS: Final = 3
_UNSUPPORTED: Final[Mapping[object, str]] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only; remove the `/`",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values; declare one list argument",
    inspect.Parameter.VAR_KEYWORD: "takes any names; declare each argument",
}


@dataclass(frozen=True, slots=True)
class TypedArguments:
    """How JSON arguments become the keyword arguments of one function."""

    model: type[BaseModel]
    fields: Mapping[str, str]
    """Model field to parameter name: fields are numbered, so that no parameter name can collide
    with a method of the model."""

    def parse(self, arguments_text: str) -> dict[str, object]:
        """Keyword arguments of the declared types; an omitted one is left to its default.

        Raises:
            InvalidInput: the text does not fit the signature; names at most three problems and
                never repeats the values.
        """
        try:
            parsed = self.model.model_validate_json(arguments_text, strict=True)
        except ValidationError as error:
            raise InvalidInput(_problems_of(error)) from error
        return {
            name: getattr(parsed, field)
            for field, name in self.fields.items()
            if field in parsed.model_fields_set
        }

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema shown to the model: closed, with required names and descriptions."""
        schema = self.model.model_json_schema(schema_generator=_UntitledSchema)
        schema.pop("title", None)
        schema.setdefault("properties", {})
        return schema


class _UntitledSchema(GenerateJsonSchema):
    """Without the titles pydantic derives from names: they cost tokens and say nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 -- pydantic's name
        return False


def read_signature(
    function: Callable[..., object], descriptions: Mapping[str, str]
) -> TypedArguments:
    """The arguments of `function`, without its `ToolContext`.

    Raises:
        Misconfigured: a parameter no JSON object can fill; names function, parameter and remedy.
    """
    place = place_of(function)
    hints = _hints_of(function, place)
    definitions: dict[str, Any] = {}
    names: dict[str, str] = {}
    for parameter in inspect.signature(function).parameters.values():
        if is_context(parameter, hints.get(parameter.name)):
            continue
        _check_parameter(parameter, hints, place)
        field = f"a{len(names)}"
        names[field] = parameter.name
        definitions[field] = (
            hints[parameter.name],
            _field_of(parameter, descriptions.get(parameter.name)),
        )
    typed = TypedArguments(_model_of(definitions, place), names)
    _check_representable(typed, place)
    return typed


def context_parameter(function: Callable[..., object]) -> str | None:
    """The name under which `function` wants its `ToolContext`; None: it wants none."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        hints = {}  # a callable without readable annotations: its parameter names still count
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None  # written in C, without a signature: it cannot want a context
    return next((item.name for item in parameters if is_context(item, hints.get(item.name))), None)


def is_context(parameter: inspect.Parameter, hint: object) -> bool:
    """Whether this parameter is the `ToolContext`: by its annotation, or by its bare name."""
    if hint is ToolContext or ToolContext in get_args(hint):
        return True
    return parameter.name == "context" and parameter.annotation is inspect.Parameter.empty


def place_of(function: Callable[..., object]) -> str:
    """Where a function is defined, as `module:name`."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '?')}:{name}"


def _hints_of(function: Callable[..., object], place: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, TypeError) as error:
        raise Misconfigured(
            f"Tool function {place!r} has an annotation that cannot be read ({error}): import the "
            "name when the module runs, not only under TYPE_CHECKING."
        ) from error


def _check_parameter(parameter: inspect.Parameter, hints: Mapping[str, object], place: str) -> None:
    if (fault := _UNSUPPORTED.get(parameter.kind)) is not None:
        raise Misconfigured(f"Tool function {place!r}: parameter {parameter.name!r} {fault}.")
    if parameter.name not in hints:
        raise Misconfigured(
            f"Tool function {place!r}: parameter {parameter.name!r} has no annotation; annotate it "
            "with a type (or name it `context` to be given the ToolContext)."
        )


def _field_of(parameter: inspect.Parameter, description: str | None) -> Any:
    settings: dict[str, Any] = {"alias": parameter.name}
    if description:
        settings["description"] = description
    if parameter.default is not inspect.Parameter.empty:
        settings["default"] = parameter.default
    return Field(**settings)


def _model_of(definitions: dict[str, Any], place: str) -> type[BaseModel]:
    try:
        return create_model(
            "Arguments", __config__=ConfigDict(extra="forbid", strict=True), **definitions
        )
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise Misconfigured(
            f"Tool function {place!r}: an argument's type has no JSON form ({_first_line(error)}); "
            "use str, int, float, bool, lists, dicts, Literal, dataclasses or pydantic models."
        ) from error


def _check_representable(typed: TypedArguments, place: str) -> None:
    try:
        typed.json_schema()
    except PydanticUserError as error:
        raise Misconfigured(
            f"Tool function {place!r}: an argument's type has no JSON Schema "
            f"({_first_line(error)}); use plain types or pydantic models."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]


def _problems_of(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    shown = (
        f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {item['msg'][:200]}"
        for item in found[:MAX_PROBLEMS]
    )
    return "; ".join(shown)
