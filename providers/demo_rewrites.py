"""Changes to the events of a good reply, each as some real endpoint sends it."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

from providers.demo_faults import Rewrite
from providers.demo_wire import Chunk
from providers.shapes import JsonObject, NotJson, as_list, as_object, as_text, read_json

_MISTAKES: Final = frozenset(
    ("invalid_arguments", "unknown_tool", "incomplete_call", "repaired_arguments")
)


def rewritten(how: Rewrite, chunks: list[Chunk]) -> list[Chunk] | None:
    """The events changed; None if there is nothing in them that could be changed so."""
    if not how:
        return chunks
    return _REWRITES[how](deepcopy(chunks))


def without_mistakes(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request without calls that could not be understood: the model then makes them again."""
    spoilt = {
        item.get("tool_call_id")
        for item in body["messages"]
        if item.get("role") == "tool" and _is_mistake(item.get("content"))
    }
    messages = []
    for item in body["messages"]:
        if item.get("role") == "tool" and item.get("tool_call_id") in spoilt:
            continue
        calls = [call for call in item.get("tool_calls") or () if call.get("id") not in spoilt]
        messages.append({**item, "tool_calls": calls} if "tool_calls" in item else item)
    return {**body, "messages": messages}


def _is_mistake(content: Any) -> bool:
    try:
        error = as_object(as_object(read_json(as_text(content))).get("error"))
    except NotJson:
        return False
    return error.get("code") in _MISTAKES


def _empty(chunks: list[Chunk]) -> list[Chunk] | None:
    return [chunk for chunk in chunks if not _delta(chunk) or "role" in _delta(chunk)]


def _length(chunks: list[Chunk]) -> list[Chunk] | None:
    """The first half of what is said, and the finish reason `length`."""
    pieces = [chunk for chunk in chunks if _delta(chunk)]
    rest = [chunk for chunk in chunks if not _delta(chunk)]
    for chunk in rest:
        for choice in chunk["choices"]:
            choice["finish_reason"] = "length"
    return [*pieces[: max(len(pieces) // 2, 2)], *rest]


def _badjson(chunks: list[Chunk]) -> list[Chunk] | None:
    """The last piece of the last call's arguments is missing."""
    places = [number for number, chunk in enumerate(chunks) if _call(chunk)]
    if not places:
        return None
    last = _call(chunks[places[-1]])["function"]
    last["arguments"] = last["arguments"][:-1]
    return chunks


def _unknown_tool(chunks: list[Chunk]) -> list[Chunk] | None:
    heads = [_call(chunk) for chunk in chunks if "id" in _call(chunk)]
    if not heads:
        return None
    heads[-1]["function"]["name"] = "consult_oracle"
    return chunks


def _dup_ids(chunks: list[Chunk]) -> list[Chunk] | None:
    heads = [_call(chunk) for chunk in chunks if "id" in _call(chunk)]
    if len(heads) < 2:
        return None
    for head in heads:
        head["id"] = heads[0]["id"]
    return chunks


def _glued(chunks: list[Chunk]) -> list[Chunk] | None:
    """Every call whole in one event, all of them on index 0."""
    heads: dict[int, Chunk] = {}
    others: list[Chunk] = []
    for chunk in chunks:
        call = _call(chunk)
        if not call:
            others.append(chunk)
        elif call["index"] in heads:
            _call(heads[call["index"]])["function"]["arguments"] += call["function"]["arguments"]
        else:
            heads[call["index"]] = chunk
    if len(heads) < 2:
        return None
    for head in heads.values():
        _call(head)["index"] = 0
    said = [chunk for chunk in others if _delta(chunk)]
    return [*said, *heads.values(), *others[len(said) :]]


def _delta(chunk: Chunk) -> dict[str, Any]:
    delta: dict[str, Any] = as_object(_choice(chunk).get("delta"))
    return delta


def _call(chunk: Chunk) -> dict[str, Any]:
    calls = as_list(_delta(chunk).get("tool_calls"))
    call: dict[str, Any] = as_object(calls[0]) if calls else {}
    return call


def _choice(chunk: Chunk) -> JsonObject:
    choices = as_list(chunk.get("choices"))
    return as_object(choices[0]) if choices else {}


_REWRITES: Final[dict[str, Callable[[list[Chunk]], list[Chunk] | None]]] = {
    "empty": _empty,
    "length": _length,
    "badjson": _badjson,
    "unknown-tool": _unknown_tool,
    "dup-ids": _dup_ids,
    "glued": _glued,
}
