"""A `ModelRequest` as the body of a stateless Responses request, always the same bytes.

The whole conversation goes with every request and nothing is kept there (`store: false`): the
record is ours. What a reasoning model needs of its own thoughts travels as encrypted items, sent
back only to the endpoint that made them, and exactly where they stood.
"""

from collections.abc import Iterator
from typing import Any, Final

from loop.request import (
    AssistantCall,
    AssistantMessage,
    Message,
    ModelRequest,
    OfferedTool,
    PicturesMessage,
    ShownPictures,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from providers.call_names import replay_name
from providers.profiles import EndpointProfile
from providers.render import (
    cache_key_of,
    data_url,
    encoded,
    parallel_switch,
    replayable_arguments,
    sent_call_id,
    strict_switch,
)
from providers.responses_layout import LAYOUT_KEY, MESSAGE, OWN_CALL, split_text
from providers.shapes import as_list, as_object

_INCLUDED: Final = ["reasoning.encrypted_content"]

Item = dict[str, Any]


def render_responses_body(
    request: ModelRequest, profile: EndpointProfile, endpoint_name: str
) -> bytes:
    """The exact bytes to send: UTF-8 JSON without spaces, keys in a fixed order."""
    leading, rest = _split_instructions(request.messages)
    items = [item for message in rest for item in _items(message, profile, endpoint_name)]
    body: dict[str, Any] = {"model": request.model}
    if leading:
        body["instructions"] = leading
    body["input"] = items
    if request.tools:
        body["tools"] = [_tool(tool, profile) for tool in request.tools]
        body |= parallel_switch(profile)
    body["store"] = False
    if profile.asks_for_encrypted_reasoning:
        body["include"] = _INCLUDED
    body["stream"] = True
    if request.max_output_tokens is not None:
        body["max_output_tokens"] = request.max_output_tokens
    body |= cache_key_of(request, profile)
    return encoded(body)


def _split_instructions(messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
    """The system messages in front, as one text, and everything behind them."""
    count = 0
    while count < len(messages) and isinstance(messages[count], SystemMessage):
        count += 1
    leading = [message.text for message in messages[:count] if isinstance(message, SystemMessage)]
    return "\n\n".join(leading), messages[count:]


def _tool(tool: OfferedTool, profile: EndpointProfile) -> Item:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        **strict_switch(tool, profile),
    }


def _items(message: Message, profile: EndpointProfile, endpoint_name: str) -> Iterator[Item]:
    match message:
        case SystemMessage(text=text):
            yield {"role": "system", "content": text}
        case UserMessage(text=text):
            yield {"role": "user", "content": text}
        case ToolMessage(call_id=call_id, text=text):
            sent = sent_call_id(call_id, profile.call_ids)
            yield {"type": "function_call_output", "call_id": sent, "output": text}
        case PicturesMessage(shown=shown):
            yield {
                "role": "user",
                "content": [part for one in shown for part in _shown(one, profile)],
            }
        case AssistantMessage():
            is_maker = message.endpoint == endpoint_name
            layout = as_list((message.extra or {}).get(LAYOUT_KEY)) if is_maker else []
            placed = _laid_out(message, [as_object(entry) for entry in layout], profile)
            yield from placed or _plain(message, profile, is_maker=is_maker)


def _shown(result: ShownPictures, profile: EndpointProfile) -> Iterator[Item]:
    sent = sent_call_id(result.call_id, profile.call_ids)
    yield {"type": "input_text", "text": result.caption(sent)}
    for picture in result.pictures:
        yield {"type": "input_image", "image_url": data_url(picture)}


def _laid_out(
    message: AssistantMessage, layout: list[Item], profile: EndpointProfile
) -> list[Item]:
    """The reply with its opaque items where they stood; empty if the layout is not its own."""
    kinds = [entry.get("type") for entry in layout]
    if kinds.count(OWN_CALL) != len(message.calls) or (message.text and MESSAGE not in kinds):
        return []
    texts, calls = iter(split_text(message.text, layout)), iter(message.calls)
    items: list[Item] = []
    for entry in layout:
        if entry.get("type") == OWN_CALL:
            items.append(_call(next(calls), profile, is_maker=True))
        elif entry.get("type") == MESSAGE:
            text = next(texts)
            items += [_said(text, entry.get("phase"))] if text else []
        else:
            items += _opaque(entry, profile)
    while items and _is_opaque(items[-1]):
        items.pop()  # an endpoint refuses thoughts that lead to nothing
    return items


def _plain(
    message: AssistantMessage, profile: EndpointProfile, *, is_maker: bool
) -> Iterator[Item]:
    if message.text:
        yield _said(message.text, None)
    for call in message.calls:
        yield _call(call, profile, is_maker=is_maker)


def _said(text: str, phase: Any) -> Item:
    """An earlier message of the model, in the one form that strict and simple servers accept."""
    item: Item = {"type": "message", "role": "assistant"}
    if phase is not None:
        item["phase"] = phase
    return {**item, "content": [{"type": "output_text", "text": text}]}


def _opaque(entry: Item, profile: EndpointProfile) -> list[Item]:
    """The item as it came, if the endpoint can use it without having kept anything itself."""
    is_whole = bool(entry.get("encrypted_content"))
    if not is_whole and not (profile.returns_reasoning and entry.get("type") == "reasoning"):
        return []
    dropped = {"status"}
    if is_whole:
        dropped.add("content")
    if not profile.returns_item_ids:
        dropped.add("id")
    return [{key: value for key, value in entry.items() if key not in dropped}]


def _is_opaque(item: Item) -> bool:
    return item.get("type") not in ("message", "function_call")


def _call(call: AssistantCall, profile: EndpointProfile, *, is_maker: bool) -> Item:
    """A call under our own id; the endpoint's id of the item itself is never needed."""
    item: Item = {
        "type": "function_call",
        "call_id": sent_call_id(call.call_id, profile.call_ids),
        "name": replay_name(call.name),
        "arguments": replayable_arguments(call.arguments_text),
    }
    extra = call.extra if is_maker else {}
    return item | {key: value for key, value in extra.items() if key not in {*item, "id", "status"}}
