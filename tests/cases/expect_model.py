"""What the model was asked, what it answered, and what that cost."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from tests.cases.found import Found
from tests.cases.matching import differs, texts
from tests.cases.scripted_model import Received


def _model_calls(found: Found, expected: Any) -> Iterator[str]:
    yield from differs("model_calls", len(found.answered()), expected)


def _model_attempts(found: Found, expected: Any) -> Iterator[str]:
    yield from differs("model_attempts", len(found.main_requests), expected)


def _summary_calls(found: Found, expected: Any) -> Iterator[str]:
    summaries = [r for r in found.world.model.requests if r.outcome == "aux"]
    yield from differs("summary_calls", len(summaries), expected)


def _usage(found: Found, expected: Mapping[str, Any]) -> Iterator[str]:
    rows = found.usage_rows()
    sums = {
        "entries": len(rows),
        "input": sum(row["input_tokens"] or 0 for row in rows),
        "output": sum(row["output_tokens"] or 0 for row in rows),
    }
    for name, value in expected.items():
        yield from differs(f"usage.{name}", sums.get(name), value)


def _rejections(found: Found, expected: Any) -> Iterator[str]:
    refused = [r for r in found.world.model.requests if r.outcome in ("rejected", "too_long")]
    yield from differs("provider_rejections", len(refused), expected)


def _identical_resends(found: Found, expected: Any) -> Iterator[str]:
    pairs = pairwise(found.world.model.requests)
    resent = sum(1 for a, b in pairs if a.outcome == "too_long" and a.sha == b.sha)
    yield from differs("identical_resends", resent, expected)


def _requests(found: Found, expected: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for wish in expected:
        if wish["turn"] == "every":
            for number, request in enumerate(found.main_requests, 1):
                yield from _request(f"request {number}", request, wish)
                yield from _images(found, f"request {number}", request, wish)
            continue
        asked = found.request_of_turn(wish["turn"])
        if asked is None:
            yield f"requests: expected one for turn {wish['turn']}, found none"
        else:
            yield from _request(f"request of turn {wish['turn']}", asked, wish)
            yield from _images(found, f"request of turn {wish['turn']}", asked, wish)


def _request(name: str, request: Received, wish: Mapping[str, Any]) -> Iterator[str]:
    messages: list[dict[str, Any]] = request.body.get("messages", [])
    for item in wish.get("contains", []):
        count = _occurrences(messages, item)
        if "times" in item:
            yield from differs(f"{name}: messages with {item['text'][:80]!r}", count, item["times"])
        elif count == 0:
            yield f"{name}: expected a message with {item['text'][:80]!r}, found none"
    for item in wish.get("not_contains", []):
        if _occurrences(messages, item):
            yield f"{name}: expected no message with {item['text'][:80]!r}, found one"
    if "last_role" in wish:
        last = messages[-1]["role"] if messages else None
        yield from differs(f"{name}: last_role", last, wish["last_role"])
    yield from _in_order(name, messages, wish.get("contains_in_order", []))


def _images(found: Found, name: str, request: Received, wish: Mapping[str, Any]) -> Iterator[str]:
    """Pictures, by the tags that the case gives them."""
    parts = [part for message in request.body.get("messages", []) for part in _parts_of(message)]
    sent = [part["image_url"]["url"] for part in parts if part.get("type") == "image_url"]
    known = dict(_tagged(found.world.case.tools))
    for tag in wish.get("contains_image", []):
        if not any(url.endswith(f",{known[tag]}") for url in sent):
            yield f"{name}: expected the picture {tag!r}, found it not among {len(sent)}"
    if "max_images" in wish:
        yield from differs(f"{name}: pictures", len(sent), {"max": wish["max_images"]})


def _tagged(value: Any) -> Iterator[tuple[str, str]]:
    """The pictures in a case: tag and base64 text."""
    if isinstance(value, dict) and {"tag", "b64"} <= value.keys():
        yield value["tag"], value["b64"]
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tagged(item)


def _parts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _in_order(
    name: str, messages: Sequence[Mapping[str, Any]], wanted: Sequence[Any]
) -> Iterator[str]:
    """Each item in a message of its own or in a later place of the same text."""
    whole = "\n".join(_text_of(message) for message in messages)
    position = 0
    for item in wanted:
        text = item if isinstance(item, str) else item["text"]
        place = whole.find(text, position)
        if place < 0:
            yield f"{name}: expected {text[:80]!r} after what comes before it, found it not"
            return
        position = place + len(text)


def _occurrences(messages: Sequence[Mapping[str, Any]], item: Mapping[str, Any]) -> int:
    """How often the text stands in messages of the role."""
    wanted, count = item["text"], 0
    for message in messages:
        if "role" in item and message["role"] != item["role"]:
            continue
        text = _text_of(message)
        count += int(text == wanted) if item.get("exact_message") else text.count(wanted)
    return count


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    words = [part.get("text", "") for part in parts if part.get("type") == "text"]
    words += [json.dumps(call.get("function")) for call in message.get("tool_calls") or []]
    return "\n".join(texts(words))


CHECKS: Final[dict[str, Callable[[Found, Any], Iterator[str]]]] = {
    "model_calls": _model_calls,
    "model_attempts": _model_attempts,
    "summary_calls": _summary_calls,
    "usage": _usage,
    "provider_rejections": _rejections,
    "identical_resends": _identical_resends,
    "requests": _requests,
}
