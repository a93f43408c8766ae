"""An endpoint on loopback for `streams.py`: holds every stream open until all have begun.

`python benchmarks/stream_server.py COUNT CHUNKS GAP_SECONDS` prints its port and serves for ever.
"""

import asyncio
import json
import sys
from typing import Any, Final

_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    b"connection: close\r\n\r\n"
)
_WORDS: Final = "some words of a model "


class StreamEndpoint:
    """Answers each request with a stream of `chunks` pieces and its usage."""

    def __init__(self, count: int, chunks: int, gap_seconds: float) -> None:
        self._count, self._chunks, self._gap_seconds = count, chunks, gap_seconds
        self._open = 0
        self._all_open = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(_length_of(head))
        writer.write(_HEAD + _chunk(_delta({"role": "assistant", "content": ""})))
        self._open += 1
        if self._open >= self._count:
            self._all_open.set()
        await self._all_open.wait()
        for _ in range(self._chunks):
            writer.write(_chunk(_delta({"content": _WORDS})))
            await writer.drain()
            await asyncio.sleep(self._gap_seconds)
        usage = {"prompt_tokens": 10, "completion_tokens": 5 * self._chunks}
        writer.write(_chunk(_delta({}, "stop")) + _chunk({"choices": [], "usage": usage}))
        done = b"data: [DONE]\n\n"
        writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(done), done))
        await writer.drain()
        writer.close()


def _length_of(head: bytes) -> int:
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    return next(int(value) for name, _, value in lines if name == b"content-length")


def _delta(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def _chunk(value: dict[str, Any]) -> bytes:
    event = f"data: {json.dumps(value)}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(event), event)


async def serve(count: int, chunks: int, gap_seconds: float) -> None:
    """Serve on a free port of 127.0.0.1 until the process ends."""
    endpoint = StreamEndpoint(count, chunks, gap_seconds)
    server = await asyncio.start_server(endpoint.answer, "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
