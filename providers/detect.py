"""A model server that already runs on this machine, found without asking anybody."""

import http.client
import json
import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final

from providers.contract import Endpoint

KNOWN_PORTS: Final[Sequence[tuple[str, int]]] = (
    ("ollama", 11434),
    ("lm-studio", 1234),
    ("llama-server", 8080),
    ("vllm", 8000),
)
_CONNECT_SECONDS: Final = 0.3
_TOTAL_SECONDS: Final = 0.45
_MAX_BYTES: Final = 1_000_000
_NO_CHAT: Final = re.compile(r"embed|rerank|whisper|tts|clip|\bbge\b|moderation", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A running server and the model to ask there."""

    endpoint: Endpoint
    model: str


def find_local_model(ports: Sequence[tuple[str, int]] = KNOWN_PORTS) -> LocalModel | None:
    """The first known server on loopback that offers a model to talk to; takes under 0.5 s.

    Args:
        ports: name and port of each server to try, the preferred first.
    """
    deadline = time.monotonic() + _TOTAL_SECONDS
    answers: SimpleQueue[tuple[int, LocalModel | None]] = SimpleQueue()
    for rank, (name, port) in enumerate(ports):
        # daemon threads: a server that drips bytes for ever must not hold this process
        threading.Thread(target=_ask, args=(rank, name, port, answers), daemon=True).start()
    found: dict[int, LocalModel] = {}
    pending = set(range(len(ports)))
    while pending and not (found and min(found) < min(pending)):
        try:
            rank, model = answers.get(timeout=max(deadline - time.monotonic(), 0.001))
        except Empty:
            break
        pending.discard(rank)
        if model is not None:
            found[rank] = model
    return found[min(found)] if found else None


def _ask(
    rank: int, name: str, port: int, answers: "SimpleQueue[tuple[int, LocalModel | None]]"
) -> None:
    model = None
    # nobody there, or something that is no model server
    with suppress(OSError, http.client.HTTPException, ValueError, RecursionError):
        model = _chat_model(_models_body(port))
    endpoint = Endpoint(base_url=f"http://127.0.0.1:{port}/v1", api_key="", name=name)
    answers.put((rank, LocalModel(endpoint, model) if model else None))


def _models_body(port: int) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_CONNECT_SECONDS)
    try:
        connection.request("GET", "/v1/models", headers={"Accept": "application/json"})
        response = connection.getresponse()
        return response.read(_MAX_BYTES) if response.status == 200 else b""
    finally:
        connection.close()


def _chat_model(body: bytes) -> str | None:
    """The first listed model that is none for embeddings, speech or ranking."""
    listed = json.loads(body or b"null")
    data = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(data, list):
        return None
    names = [item.get("id") for item in data if isinstance(item, dict)]
    return next(
        (name for name in names if isinstance(name, str) and name and not _NO_CHAT.search(name)),
        None,
    )
