"""From everything an endpoint said to one verdict: a `ModelTurn` that can be trusted and stored.

An answer counts only if the endpoint marked its end and said something. Of an answer that was cut,
failed or filtered no call runs, however whole it looks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from loop.request import OfferedTool
from loop.response import CallStatus, Failure, Finish, ModelTurn, ProposedCall
from providers.answer import Heard
from providers.call_arguments import ReadArguments, read_arguments
from providers.call_names import resolve_name
from providers.call_pieces import CallPieces
from providers.markup import RecoveredCall, drop_stray_tags, recover_calls
from providers.shapes import JsonObject, storable_extra
from providers.storable import storable
from providers.think_tags import split_unopened

_LENGTH: Final = frozenset(("length", "max_tokens", "model_length", "max_output_tokens"))
_FILTER: Final = frozenset(
    ("content_filter", "safety", "sensitive", "recitation", "prohibited_content", "blocklist")
)
_BROKEN: Final = frozenset(
    ("error", "abort", "insufficient_system_resource", "network_error", "timeout")
)
_MODEL_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What of the request decides how its answer is read."""

    max_tokens: int | None = None
    """The limit asked for, in tokens."""
    ids_already_used: frozenset[str] = frozenset()
    """Call ids of the conversation, which no new call may have again."""


@dataclass(slots=True)
class _Draft:
    """A call before the fate of the whole answer is known."""

    written_id: str
    written_name: str
    written_arguments: str
    extra: JsonObject
    is_recovered: bool = False


def conclude(
    heard: Heard, offered: Sequence[OfferedTool], facts: RequestFacts, cut: Failure | None
) -> ModelTurn:
    """The turn that an answer amounts to.

    Args:
        heard: all that came.
        offered: the tools the request offered.
        facts: of the request.
        cut: why the connection ended, if it did not end well; without weight once the endpoint
            had said that the answer is finished.
    """
    schemas = {tool.name: tool.input_schema for tool in offered}
    text, tagged = _words(heard)
    drafts = [_draft(call) for call in heard.calls]
    if drafts:
        text = drop_stray_tags(text)
    else:
        text, recovered = recover_calls(text, schemas)
        drafts = [_recovered(call) for call in recovered]
    read = [read_arguments(d.written_arguments, schemas.get(_name(d, schemas), {})) for d in drafts]
    is_at_limit = (
        facts.max_tokens is not None and (heard.usage.output_tokens or 0) >= facts.max_tokens
    )
    is_cut = is_at_limit and any(arguments.is_cut for arguments in read)
    failure = heard.failure or _fault_of(heard, cut)
    finish = _finish_of(heard, is_cut=is_cut, has_calls=bool(drafts))
    text = "\n\n".join(words for words in (text, heard.refusal) if words)
    if failure is None and not drafts and not text.strip():
        failure = _nothing_said(finish)
    is_void = failure is not None or finish in ("length", "content_filter")
    text, is_text_repaired = storable(text)
    reasoning, is_reasoning_repaired = storable(_reasoning(heard, tagged))
    return ModelTurn(
        text=text,
        reasoning=reasoning or None,
        calls=_calls(drafts, read, schemas, facts, is_void=is_void),
        usage=heard.usage,
        finish=None if failure is not None else finish,
        failure=failure,
        extra=storable_extra(heard.extra),
        is_repaired=is_text_repaired or is_reasoning_repaired,
        model=heard.model,
        response_id=heard.response_id,
    )


def _draft(call: CallPieces) -> _Draft:
    return _Draft(call.model_id, call.name, call.arguments.text(), call.extra)


def _recovered(call: RecoveredCall) -> _Draft:
    return _Draft("", call.name, call.arguments_text, {}, is_recovered=True)


def _words(heard: Heard) -> tuple[str, str]:
    """The text, and the reasoning that stood in it between tags."""
    text, tagged = heard.text, heard.tagged
    if not tagged and "</think>" in text:
        tagged, text = split_unopened(text)
    return text, tagged


def _reasoning(heard: Heard, tagged: str) -> str:
    own = heard.reasoning
    return f"{own}\n{tagged}" if own and tagged else own or tagged


def _fault_of(heard: Heard, cut: Failure | None) -> Failure | None:
    """Why the answer cannot count, judged by how it ended."""
    reason = heard.finish_reason.lower()
    if reason in _BROKEN:
        message = f"The endpoint ended its answer with {reason!r}."
        return Failure(error_class="server", is_retryable=True, message=message)
    if reason == "malformed_function_call":
        message = "The endpoint could not read the call that the model wrote."
        return Failure(error_class="model_output", is_retryable=True, message=message)
    if reason or heard.is_ended:
        return None
    return cut or Failure(
        error_class="incomplete_stream",
        is_retryable=True,
        message="The stream ended before the endpoint marked the end of its answer.",
    )


def _finish_of(heard: Heard, *, is_cut: bool, has_calls: bool) -> Finish:
    reason = heard.finish_reason.lower()
    if reason in _LENGTH or is_cut:
        return "length"
    if reason in _FILTER:
        return "content_filter"
    if heard.refusal or reason == "refusal":
        return "refusal"
    return "tool_calls" if has_calls else "stop"


def _nothing_said(finish: Finish) -> Failure:
    if finish == "content_filter":
        message = "The provider's content filter let nothing of the answer through."
        return Failure(error_class="content_filter", is_retryable=False, message=message)
    message = "The model's answer holds no text and no call."
    return Failure(error_class="empty_response", is_retryable=True, message=message)


def _name(draft: _Draft, schemas: dict[str, dict[str, Any]]) -> str:
    return resolve_name(draft.written_name, schemas)


def _calls(
    drafts: list[_Draft],
    read: list[ReadArguments],
    schemas: dict[str, dict[str, Any]],
    facts: RequestFacts,
    *,
    is_void: bool,
) -> tuple[ProposedCall, ...]:
    used = set(facts.ids_already_used)
    calls = []
    for draft, arguments in zip(drafts, read, strict=True):
        model_id = _unique_id(draft.written_id, used)
        used.add(model_id)
        name, is_name_repaired = storable(_name(draft, schemas)[:_MODEL_CHARS])
        status, problem = _status(name, arguments, schemas, is_void=is_void)
        calls.append(
            ProposedCall(
                model_id=model_id,
                name=name,
                status=status,
                arguments_text=arguments.text,
                raw_arguments=storable(draft.written_arguments)[0],
                problem=problem,
                extra=storable_extra(draft.extra),
                is_recovered=draft.is_recovered,
                is_repaired=arguments.is_repaired or is_name_repaired,
            )
        )
    return tuple(calls)


def _status(
    name: str, arguments: ReadArguments, schemas: dict[str, dict[str, Any]], *, is_void: bool
) -> tuple[CallStatus, str | None]:
    if is_void:
        return "incomplete", "The answer was cut off: nothing of it was run. Send the call again."
    if name not in schemas:
        offered = ", ".join(schemas) or "none"
        return "unknown_tool", f"There is no tool {name!r}. The tools offered are: {offered}."
    return ("ok" if arguments.text is not None else "invalid_arguments"), arguments.problem


def _unique_id(written: str, used: set[str]) -> str:
    """The id the model gave if it can serve, else a made one that nobody has used."""
    given, is_repaired = storable(written)
    if given and not is_repaired and len(given) <= _MODEL_CHARS and given not in used:
        return given
    number = len(used)
    while (made := f"made_{number}") in used:
        number += 1
    return made
