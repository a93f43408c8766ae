"""Bad inputs that come from the web: a server of ours answers them, on loopback.

The workers may ask that one port of this machine, as an operator would allow it, and nothing else
that is not public.
"""

import contextlib
import re
import socket
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from tests.cases.actions import Stage
from tests.cases.badinput_scripts import case_data
from tests.cases.world import World
from tests.tools.web.servers import listening

MOST_GROWTH_BYTES: Final = 100 * 1024 * 1024
_PIECE_UNITS: Final = 1024 * 1024
_GZIP: Final = zlib.MAX_WBITS + 16

Serve = Callable[[socket.socket], None]


@dataclass(slots=True)
class ScriptedWeb:
    """What our server says at each path, and how often it was asked."""

    port: int = 0
    pages: dict[str, Serve] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    @property
    def allowed(self) -> str:
        """The setting that opens it."""
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        """Where a path is read."""
        return f"http://127.0.0.1:{self.port}{path}"


@contextlib.contextmanager
def scripted_web() -> Iterator[ScriptedWeb]:
    """The server during the block; its pages may be set until they are asked for."""
    web = ScriptedWeb()

    def serve(connection: socket.socket, request: bytes) -> None:
        path = request.split()[1].decode()
        web.asked[path] += 1
        web.pages[path](connection)

    with listening(serve) as server:
        web.port = server.port
        yield web


def huge_answer(given: Mapping[str, Any], web: ScriptedWeb) -> dict[str, Any]:
    """A body without end, as an answer and behind a redirect that carries it, too."""
    headers = "".join(f"{name}: {value}\r\n" for name, value in given["headers"].items())

    def answer(status: str) -> Serve:
        def serve(connection: socket.socket) -> None:
            connection.sendall(f"HTTP/1.1 {status}\r\n{headers}Connection: close\r\n\r\n".encode())
            for piece in _compressed(given["generate_gzip"]):
                connection.sendall(piece)

        return serve

    web.pages["/huge"] = answer("200 OK")
    web.pages["/huge-redirect"] = answer(f"302 Found\r\nLocation: {web.url('/huge')}")
    return _reads([web.url("/huge"), web.url("/huge-redirect")])


def redirecting_server(given: Mapping[str, Any], web: ScriptedWeb) -> dict[str, Any]:
    """One chain of redirects for each place where it may end; all but the last step are ours."""
    *leading, last = given["steps"]
    starts: list[str] = []
    for number, end in enumerate([last["location"], *given.get("also", ())]):
        for hop, step in enumerate(given["steps"]):
            is_last = hop == len(leading)
            location = end if is_last else web.url(f"/chain{number}/{hop + 1}")
            web.pages[f"/chain{number}/{hop}"] = _redirect(step["status"], location)
        starts.append(web.url(f"/chain{number}/0"))
    return _reads(starts)


def nothing_has_grown(stage: Stage, worlds: Sequence[World], web: ScriptedWeb) -> Iterator[str]:
    """What is wrong with the memory of the tool workers, and whether the body was asked for."""
    for path in ("/huge", "/huge-redirect"):
        wanted = len(worlds) * (2 if path == "/huge" else 1)
        if web.asked[path] != wanted:
            yield f"{path}: expected {wanted} requests, found {web.asked[path]}"
    for worker in stage.workers.of_role("tool"):
        parent = psutil.Process(worker.pid)
        for child in parent.children():
            growth = _peak_bytes(child.pid) - _peak_bytes(parent.pid)
            if growth > MOST_GROWTH_BYTES:
                yield f"a tool worker's child grew by {growth:,} bytes"


def every_hop_was_asked_once(
    given: Mapping[str, Any], worlds: Sequence[World], web: ScriptedWeb
) -> Iterator[str]:
    """What is wrong with the hops: each of ours is asked once a run, and none of the others."""
    hops = {path: n for path, n in web.asked.items() if path.startswith("/chain")}
    chains = 1 + len(given.get("also", ()))
    expected = {
        f"/chain{number}/{hop}": len(worlds)
        for number in range(chains)
        for hop in range(len(given["steps"]))
    }
    if hops != expected:
        yield f"expected the requests {expected}, found {hops}"


def _reads(urls: Sequence[str]) -> dict[str, Any]:
    calls = [
        {"id": f"c{number}", "name": "web_read", "arguments": {"url": url}}
        for number, url in enumerate(urls, 1)
    ]
    expect = {
        "status": "completed",
        "tool_results": {call["id"]: {"error": True} for call in calls},
    }
    return {**case_data([calls, []], [], expect), "builtin": ["web_read"]}


def _redirect(status: int, location: str) -> Serve:
    head = f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    return lambda connection: connection.sendall(head.encode())


def _compressed(recipe: Mapping[str, Any]) -> Iterator[bytes]:
    """The gzip of a unit repeated, a piece at a time; nobody has to hold it."""
    deflate = zlib.compressobj(wbits=_GZIP)
    unit = recipe["unit"].encode()
    whole, rest = divmod(recipe["times"], _PIECE_UNITS)
    piece = unit * _PIECE_UNITS
    for _ in range(whole):
        if packed := deflate.compress(piece):
            yield packed
    yield deflate.compress(unit * rest) + deflate.flush()


def _peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(peak[1]) * 1024 if peak else 0
