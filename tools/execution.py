"""Running one tool: whatever its code does, the end is a value.

| the tool | read, idempotent | mutation |
| --- | --- | --- |
| returns | Returned | Returned |
| returns what has no JSON form | Errored | Returned, with a placeholder: the change is done |
| raises ToolFailed | Errored | Errored: definite, nothing happened |
| raises anything else | Errored | Unknown: nobody knows |
"""

import inspect
from collections.abc import Callable
from typing import Final

from loop.outcome import Errored, Returned, Unknown
from tools.definition import Tool
from tools.encoding import NotJson
from tools.failure import Failure, failure_of
from tools.output import output_problem
from tools.result import EncodedResult, encode_result, error_text
from umbel import strict_json
from umbel.errors import InvalidInput
from umbel.tool import ToolContext, ToolFailed

UNREADABLE_RESULT: Final = "unreadable_result"


def never() -> bool:
    """Nobody ends the tool."""
    return False


def run_tool(
    tool: Tool,
    arguments_text: str,
    context: ToolContext,
    *,
    is_cut_short: Callable[[], bool] = never,
) -> Returned | Errored | Unknown:
    """Call the tool once and say how it ended. Never raises for anything the tool does.

    Even SystemExit and KeyboardInterrupt out of the tool become a value: the caller has a result
    to record and decides by itself whether its process goes on.

    Args:
        tool: what to run.
        arguments_text: the bytes that passed preflight.
        context: what the tool is given beside its arguments.
        is_cut_short: asked when something other than an Exception comes out of the tool: true if
            it was raised to end the tool or its process, and is no outcome.
    """
    try:
        arguments = _arguments_of(tool, arguments_text)
    except InvalidInput as error:
        # The function has not been entered, so this is definite for a mutation, too.
        return Errored(error_text("invalid_arguments", f"{error}. Nothing was done."))
    if tool.context_name is not None:
        arguments[tool.context_name] = context
    try:
        value = tool.function(**arguments)
    except BaseException as error:
        if not isinstance(error, Exception) and is_cut_short():
            raise  # not the tool's doing: it was told to end while it ran
        return _failed(tool, error)
    return _returned(tool, value)


def _arguments_of(tool: Tool, arguments_text: str) -> dict[str, object]:
    if tool.typed is not None:
        return tool.typed.parse(arguments_text)
    value = strict_json.parse(arguments_text)
    if not isinstance(value, dict):
        raise InvalidInput("the arguments are not a JSON object")
    return dict(value)


def _failed(tool: Tool, error: BaseException) -> Errored | Unknown:
    failure = failure_of(error)
    if tool.effect == "mutation" and not isinstance(error, ToolFailed):
        return Unknown(failure.message)
    return Errored(error_text(failure.code, failure.message))


def _returned(tool: Tool, value: object) -> Returned | Errored | Unknown:
    encoded = _encoded(value)
    if isinstance(encoded, EncodedResult):
        problem = output_problem(tool.output_schema, encoded.text) if tool.output_schema else None
        if problem is not None:
            return _broken_promise(tool, problem)
        return Returned(encoded.text, encoded.is_escaped)
    if tool.effect == "mutation":
        placeholder = {
            UNREADABLE_RESULT: {
                "message": "The tool returned, so its change is done, but its result cannot be "
                f"stored: {encoded.message}",
                "type": type(value).__name__[:100],
            }
        }
        return Returned(encode_result(placeholder).text)
    return Errored(error_text(UNREADABLE_RESULT, encoded.message))


def _broken_promise(tool: Tool, problem: str) -> Errored | Unknown:
    """A result that is not what the tool promised: after a change, nobody knows what it did."""
    message = f"The result does not fit the tool's output schema: {problem}"
    if tool.effect == "mutation":
        return Unknown(message)
    return Errored(error_text("invalid_output", message))


def _encoded(value: object) -> EncodedResult | Failure:
    if inspect.iscoroutine(value):
        value.close()  # nobody will await it; unclosed it would warn at some later moment
    try:
        return encode_result(value)
    except NotJson as error:
        return failure_of(error)
    except BaseException as error:  # noqa: BLE001 -- the value's own code runs while it is read
        return failure_of(error)
