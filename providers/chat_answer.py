"""One Chat Completions answer as it comes together, chunk by chunk or as a whole message."""

from collections.abc import Sequence
from typing import Final

from loop.response import Failure
from providers.answer import Heard, OnDelta
from providers.call_pieces import CallAssembler, CallPieces
from providers.contract import DeltaKind
from providers.failures import is_error
from providers.message_parts import opaque_fields, parts_of, reasoning_field
from providers.shapes import JsonObject, as_list, as_number, as_object, as_text
from providers.storable import TextPieces, storable
from providers.think_tags import ThinkSplitter
from providers.usage import UsageMeter
from umbel.strict_json import Json

_NO_REASON: Final = frozenset(("null", "none"))  # the text, as some gateways write it
_MESSAGE_NOISE: Final = frozenset(("content_filter_results", "annotations", "audio", "id"))


class ChatAnswer:
    """What has been said so far; the pieces are judged in `providers.conclusion`."""

    def __init__(self, known: frozenset[str], on_delta: OnDelta) -> None:
        self.words = ThinkSplitter()
        self.reasoning = TextPieces()
        self.refusal = TextPieces()
        self.calls = CallAssembler(known)
        self.usage = UsageMeter()
        self.finish_reason = ""
        self.failure: Failure | None = None
        self.is_ended = False
        """The endpoint itself marked the end: [DONE], or a whole message."""
        self.extra: JsonObject = {}
        self.model: str | None = None
        self.response_id: str | None = None
        self.progress = 0
        self.is_waiting = True
        self.is_over = False
        self._known = known
        self._inner_error: Json = None
        self._announced: set[int] = set()
        self._on_delta = on_delta

    def take_event(self, value: JsonObject, name: str) -> bool:  # noqa: ARG002 - no event has a name
        """Add one streamed chunk; choices other than the first are not ours."""
        self._take_chunk(value)
        is_ours = bool(value.get("choices") or value.get("usage"))
        if is_ours:
            self.is_waiting = False
        return is_ours

    def take_done(self) -> None:
        """`[DONE]` marks the end as well as a finish reason does."""
        self.is_ended = self.is_over = True

    def take_whole(self, value: JsonObject) -> bool:
        """Add an answer that came in one piece."""
        if value.get("choices") or value.get("usage"):
            self._take_answer(value)
        return bool(value.get("choices"))

    def end_empty(self) -> None:
        """An empty body is an answer that says nothing."""
        self.is_ended = True

    def error_in(self, value: Json, name: str) -> Json:
        """The value itself if it is an error, or the error inside its choice or Groq's part."""
        if is_error(value, name):
            return value
        return {"error": self._inner_error} if self._inner_error else None

    def heard(self) -> Heard:
        """Everything so far; lets out what was held back because it might have become a tag."""
        self._emit_words(self.words.finish())
        return Heard(
            text=self.words.text.joined(),
            tagged=self.words.reasoning.joined().strip(),
            reasoning=self.reasoning.joined(),
            refusal=self.refusal.joined(),
            calls=self.calls.calls,
            usage=self.usage.result(),
            finish_reason=self.finish_reason,
            is_ended=self.is_ended,
            failure=self.failure,
            extra=self.extra,
            model=self.model,
            response_id=self.response_id,
        )

    def _take_chunk(self, chunk: JsonObject) -> None:
        choice = self._first_choice(chunk)
        self._take_facts(chunk, choice)
        delta = as_object(choice.get("delta"))
        whole = as_object(choice.get("message"))
        if delta:
            self._take_words(delta)
            if "tool_calls" in delta or "function_call" in delta:
                self._announce(self.calls.add_delta(_tool_calls(delta)))
        elif whole and not self.progress:
            self._take_message(whole)
        elif as_text(choice.get("text")):
            self._take_words({"content": choice["text"]})

    def _take_answer(self, answer: JsonObject) -> None:
        choice = self._first_choice(answer)
        self._take_facts(answer, choice)
        self._take_message(as_object(choice.get("message") or choice.get("delta")))
        if not choice.get("message"):
            self._take_words({"content": choice.get("text")})
        self.is_ended = True

    def said_chars(self) -> int:
        """Characters the model has written, for an estimate of its tokens."""
        arguments = sum(len(call.arguments.text()) for call in self.calls.calls)
        texts = (self.words.text, self.words.reasoning, self.reasoning, self.refusal)
        return arguments + sum(len(text.joined()) for text in texts)

    @staticmethod
    def _first_choice(chunk: JsonObject) -> JsonObject:
        listed = chunk.get("choices")
        if isinstance(listed, list) and len(listed) == 1 and isinstance(listed[0], dict):
            only = listed[0]  # what nearly every chunk holds
            return {} if as_number(only.get("index")) else only
        choices = [as_object(item) for item in as_list(listed)]
        return next((item for item in choices if not as_number(item.get("index"))), {})

    def _take_facts(self, chunk: JsonObject, choice: JsonObject) -> None:
        if self.usage.add_chunk(chunk, choice):
            self.progress += 1
        reason = as_text(choice.get("finish_reason"))
        if reason and reason.lower() not in _NO_REASON:
            self.finish_reason = reason
        inner = choice.get("error") or as_object(chunk.get("x_groq")).get("error")
        self._inner_error = inner if isinstance(inner, dict | str) and inner else None
        if self.model is None:
            self.model = storable(as_text(chunk.get("model")))[0][:200] or None
        if self.response_id is None:
            self.response_id = storable(as_text(chunk.get("id")))[0][:200] or None

    def _take_message(self, message: JsonObject) -> None:
        self._take_words(message)
        self._announce(self.calls.add_whole(_tool_calls(message)))

    def _take_words(self, message: JsonObject) -> None:
        for kind, piece in parts_of(message):
            self.progress += 1
            if kind == "text":
                self._emit_words(self.words.feed(piece))
            elif kind == "reasoning":
                self.reasoning.add(piece)
                self._show("reasoning", piece)
            else:
                self.refusal.add(piece)
                self._show("text", piece)
        field = reasoning_field(message)
        if field is not None:
            self.extra["reasoning_field"] = field
        for key, value in opaque_fields(message).items():
            self._take_opaque(key, value)

    def _take_opaque(self, key: str, value: Json) -> None:
        """Lists of opaque fields come in pieces, like text."""
        if key in _MESSAGE_NOISE:
            return
        so_far = self.extra.get(key)
        if isinstance(so_far, list) and isinstance(value, list):
            so_far.extend(value)
        else:
            self.extra[key] = list(value) if isinstance(value, list) else value

    def _emit_words(self, pieces: Sequence[tuple[DeltaKind, str]]) -> None:
        for kind, piece in pieces:
            self._show(kind, piece)

    def _announce(self, touched: list[CallPieces]) -> None:
        """Show the name of a call once, as soon as it is whole."""
        self.progress += len(touched)
        for call in touched:
            if id(call) not in self._announced and call.name in self._known:
                self._announced.add(id(call))
                self._show("call", call.name)

    def _show(self, kind: DeltaKind, piece: str) -> None:
        self._on_delta(kind, storable(piece)[0])


def _tool_calls(message: JsonObject) -> Json:
    """The calls of a delta or message; the old `function_call` is a list of one."""
    old = message.get("function_call")
    if not message.get("tool_calls") and isinstance(old, dict):
        return [{"index": 0, "function": old}]
    return message.get("tool_calls")
