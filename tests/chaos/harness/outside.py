"""The world outside as a server: the model, and the systems that tools change."""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from tests.cases.http_server import Route, serving
from tests.cases.scripted_model import Answer
from tests.cases.wire import error_body, turn_chunks
from tests.chaos.harness.ledger import Ledger
from tests.chaos.harness.script import CHANGES, MODEL_PREFIX, Script, request_of


class Outside:
    """Does what the script says and writes it into the ledger."""

    def __init__(self, script: Script, ledger: Ledger) -> None:
        self._script = script
        self._ledger = ledger
        self._routes: dict[str, Route] = {"/v1/chat/completions": self._chat, "/tool": self._tool}

    @contextlib.contextmanager
    def listening(self) -> Iterator[str]:
        """Serve during the block; yields the address."""
        with serving(self._routes.get) as address:
            yield address

    def _chat(self, raw: bytes, _purpose: str) -> Answer:
        body: dict[str, Any] = json.loads(raw)
        model = str(body.get("model"))
        if not model.startswith(MODEL_PREFIX):
            return Answer(404, body=error_body("model_not_found", f"no run has model {model!r}"))
        run = int(model.removeprefix(MODEL_PREFIX))
        step = _step_asked_for(body["messages"], run)
        self._ledger.note_asked(run, step)
        return Answer(chunks=self._speak(model, run, step))

    def _speak(self, model: str, run: int, step: int) -> Iterator[bytes]:
        chunks = list(turn_chunks(self._script.turn(run, step), model, step))
        pause = self._script.thinking_seconds(run, step) / len(chunks)
        for chunk in chunks:
            threading.Event().wait(pause)
            yield chunk

    def _tool(self, raw: bytes, _purpose: str) -> Answer:
        visit: Mapping[str, str] = json.loads(raw)
        tool, key = visit["tool"], visit["key"]
        behaviour = self._script.behaviour(tool, key)
        self._ledger.note_tool_call()
        if behaviour == "refused":
            return _told(refused="The other side refuses: nothing was done.")
        if behaviour == "slow":
            threading.Event().wait(self._script.working_seconds(key))
        if tool in CHANGES:
            self._ledger.note_effect(visit["call_id"], visit["run_id"], key)
        if behaviour == "answer_lost":
            return Answer()
        if behaviour == "error_after":
            return _told(error="The other side fails after it has done its work.")
        return _told(value=f"{tool} {key}")


def _step_asked_for(messages: list[dict[str, Any]], run: int) -> int:
    """A step is what the model has said to this request before, and one more.

    What earlier runs of the thread left in the conversation stands before the request.
    """
    said = 0
    for message in reversed(messages):
        if message["role"] == "user" and message["content"] == request_of(run):
            break
        said += message["role"] == "assistant"
    else:
        raise ValueError(f"the request of run {run} is not in its conversation")
    return said + 1


def _told(**answer: str) -> Answer:
    return Answer(body=json.dumps(answer).encode())
