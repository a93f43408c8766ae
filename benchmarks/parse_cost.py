"""What reading one streamed chunk costs, ours next to the SDK's, in microseconds of CPU.

`python benchmarks/parse_cost.py` prints one line of JSON and fails if ours is above 40.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import httpx2
import openai

from loop.request import OfferedTool
from providers.normalise import normalise
from providers.responses_answer import ResponsesAnswer

MAX_US: Final = 40.0
CHUNKS: Final = 20_000
_READ_BYTES: Final = 1_400  # about what one packet brings
_HEADERS: Final = {"content-type": "text/event-stream"}
_TOOL: Final = OfferedTool("write_file", "writes", {"type": "object"})


def _event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


def _chat_chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    head = {"id": "chatcmpl-Cx1", "object": "chat.completion.chunk", "created": 1790000000,
            "model": "gpt-test", "service_tier": "default", "system_fingerprint": "fp"}  # fmt: skip
    return _event({**head, "choices": [choice]})


def text_stream() -> list[bytes]:
    """A long text, a word a chunk."""
    words = [_chat_chunk({"content": " word"})] * CHUNKS
    return [*words, _chat_chunk({}, "stop"), b"data: [DONE]\n\n"]


def call_stream() -> list[bytes]:
    """A call with long arguments, a word a chunk."""
    function = {"name": "write_file", "arguments": '{"text":"'}
    head = {"index": 0, "id": "call_1", "type": "function", "function": function}
    piece = {"tool_calls": [{"index": 0, "function": {"arguments": " word"}}]}
    last = {"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]}
    pieces = [_chat_chunk(piece)] * CHUNKS
    end = [_chat_chunk(last), _chat_chunk({}, "tool_calls"), b"data: [DONE]\n\n"]
    return [_chat_chunk({"tool_calls": [head]}), *pieces, *end]


def responses_stream() -> list[bytes]:
    """The long text over the Responses API."""
    delta = {"type": "response.output_text.delta", "sequence_number": 7, "item_id": "msg_1",
             "output_index": 0, "content_index": 0, "delta": " word", "logprobs": []}  # fmt: skip
    end = {"type": "response.completed", "response": {"id": "resp_1", "output": []}}
    return [_event(delta)] * CHUNKS + [_event(end)]


def _packets(stream: list[bytes]) -> list[bytes]:
    raw = b"".join(stream)
    return [raw[start : start + _READ_BYTES] for start in range(0, len(raw), _READ_BYTES)]


def _cost_us(read: Callable[[], object]) -> float:
    """The cheapest of three readings: the others were disturbed."""
    spent = []
    for _ in range(3):
        start = time.process_time()
        read()
        spent.append(time.process_time() - start)
    return round(min(spent) / CHUNKS * 1e6, 1)


def read_ours(packets: Iterable[bytes], **wire: Any) -> None:
    """Through our own parser, to the turn."""
    turn = normalise(packets, status=200, headers=_HEADERS, offered=(_TOOL,), **wire)
    if turn.failure is not None:
        raise RuntimeError(turn.failure.message)


def read_sdk(packets: list[bytes]) -> None:
    """Through the SDK's stream of chunk models, which nobody has merged yet."""

    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=_HEADERS, content=iter(packets))

    http_client = httpx2.Client(transport=httpx2.MockTransport(answer))
    with openai.OpenAI(api_key="k", base_url="http://x", http_client=http_client) as client:
        for _ in client.chat.completions.create(model="m", messages=[], stream=True):
            pass


def main() -> int:
    """Measure and judge."""
    text, call, responses = map(_packets, (text_stream(), call_stream(), responses_stream()))
    ours = {
        "text": _cost_us(lambda: read_ours(text)),
        "call": _cost_us(lambda: read_ours(call)),
        "responses": _cost_us(lambda: read_ours(responses, new_answer=ResponsesAnswer)),
    }
    sdk = {"text": _cost_us(lambda: read_sdk(text)), "call": _cost_us(lambda: read_sdk(call))}
    sys.stdout.write(json.dumps({"ours_us": ours, "sdk_us": sdk}) + "\n")
    return 0 if max(ours.values()) <= MAX_US else 1


if __name__ == "__main__":
    sys.exit(main())
