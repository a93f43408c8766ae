"""Running one tool: whatever its code does, the end is a value.

| the tool | read, idempotent | mutation |
| --- | --- | --- |
| returns, or gives its last piece | Returned | Returned |
| returns what has no JSON form | Errored | Returned, with a placeholder: the change is done |
| gives a piece that cannot be kept | Errored, and it is ended | the same, at its own end |
| raises ToolFailed | Errored | Errored: definite, nothing happened |
| raises anything else | Errored | Unknown: nobody knows |
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Final

from loop.outcome import Errored, Returned, Unknown
from loop.pictures import Picture
from tools.capture import CaptureLost, CaptureWriter, MemoryCapture, keep_value
from tools.definition import Tool
from tools.encoding import NotJson
from tools.failure import Failure, failure_of
from tools.output import output_problem
from tools.pictures import split_pictures
from tools.result import EncodedResult, encode_result, error_text
from tools.streaming import StreamedResult, is_stream
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
    writer: CaptureWriter | None = None,
    is_cut_short: Callable[[], bool] = never,
) -> Returned | Errored | Unknown:
    """Call the tool once and say how it ended. Never raises for anything the tool does.

    Even SystemExit and KeyboardInterrupt out of the tool become a value: the caller has a result
    to record and decides by itself whether its process goes on.

    Args:
        tool: what to run.
        arguments_text: the bytes that passed preflight.
        context: what the tool is given beside its arguments.
        writer: takes what is too long for the outcome; None: it is forgotten.
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
    kept_by = writer or MemoryCapture()
    try:
        value = tool.function(**arguments)
    except BaseException as error:
        if not isinstance(error, Exception) and is_cut_short():
            raise  # not the tool's doing: it was told to end while it ran
        return _failed(tool, error)
    if is_stream(value) and tool.output_schema is None:
        return _streamed(tool, value, context, kept_by, is_cut_short)
    return _returned(tool, value, kept_by)


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


def _streamed(
    tool: Tool,
    pieces: Iterator[object],
    context: ToolContext,
    writer: CaptureWriter,
    is_cut_short: Callable[[], bool],
) -> Returned | Errored | Unknown:
    """Take the pieces one by one; each is a sign of life."""
    result = StreamedResult(writer)
    try:
        while True:
            try:
                piece = next(pieces)
            except StopIteration:
                break
            except BaseException as error:
                if not isinstance(error, Exception) and is_cut_short():
                    raise
                return _failed(tool, error)
            context.progress()
            # A change must come to its end, whatever becomes of its words.
            if not result.take(piece) and tool.effect != "mutation":
                break
    finally:
        _close(pieces)
    ended = result.end()
    return _not_kept(tool, ended, pieces) if isinstance(ended, Failure) else ended


def _close(pieces: Iterator[object]) -> None:
    """End a stream that is not read to its end; what its code does then is of no interest."""
    close = getattr(pieces, "close", None)
    if callable(close):
        with contextlib.suppress(Exception):
            close()


def _returned(tool: Tool, value: object, writer: CaptureWriter) -> Returned | Errored | Unknown:
    encoded = _encoded(value)
    if isinstance(encoded, Failure):
        return _not_kept(tool, encoded, value)
    result, pictures = encoded
    problem = output_problem(tool.output_schema, result.text) if tool.output_schema else None
    if problem is not None:
        return _broken_promise(tool, problem)
    try:
        return keep_value(result, pictures, writer)
    except CaptureLost as error:
        return _not_kept(tool, failure_of(error), value)


def _not_kept(tool: Tool, failure: Failure, value: object) -> Returned | Errored:
    """The outcome of a tool that has ended, but whose result cannot be stored."""
    if tool.effect != "mutation":
        return Errored(error_text(UNREADABLE_RESULT, failure.message))
    placeholder = {
        UNREADABLE_RESULT: {
            "message": "The tool returned, so its change is done, but its result cannot be "
            f"stored: {failure.message}",
            "type": type(value).__name__[:100],
        }
    }
    return Returned(encode_result(placeholder).text)


def _broken_promise(tool: Tool, problem: str) -> Errored | Unknown:
    """A result that is not what the tool promised: after a change, nobody knows what it did."""
    message = f"The result does not fit the tool's output schema: {problem}"
    if tool.effect == "mutation":
        return Unknown(message)
    return Errored(error_text("invalid_output", message))


def _encoded(value: object) -> tuple[EncodedResult, tuple[Picture, ...]] | Failure:
    if inspect.iscoroutine(value):
        value.close()  # nobody will await it; unclosed it would warn at some later moment
    try:
        plain, pictures = split_pictures(value)
        return encode_result(plain), pictures
    except NotJson as error:
        return failure_of(error)
    except BaseException as error:  # noqa: BLE001 -- the value's own code runs while it is read
        return failure_of(error)
