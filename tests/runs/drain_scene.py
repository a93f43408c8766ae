"""A system whose workers are told to end while they are busy, and a model that can wait."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from models.database import Database, Row
from tasks.acceptance import AgentSpec, NewRequest, accept
from tasks.ringing import Ringer
from tests.broker import publisher
from tests.factories import MAY_REPEAT
from tests.runs import drain_tools
from tests.services import Place
from tests.worker_processes import PATIENT_CLOCKS, Worker, WorkerProcesses
from tools.registry import ToolRegistry, load_registry
from umbel.contracts import Principal, RunId

TOOLS: Final = "tests.runs.drain_tools"
OWNER: Final = Principal(tenant="drain", user="owner")
_YARDSTICK_SECONDS: Final = 0.2
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    b"connection: close\r\n\r\n"
)


class PatientModel:
    """Answers with calls first and text then; a text never ends before the test is in a hurry."""

    def __init__(self) -> None:
        self.wanted: dict[str, list[str]] = {}
        """By model name: the tools that the first reply asks for."""
        self.in_hurry = Event()
        self.requests = 0
        self.open_streams = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._is_ready = Event()

    @contextmanager
    def listening(self) -> Iterator[str]:
        """Serve during the block; yields the address."""
        thread = Thread(target=self._serve, daemon=True)
        thread.start()
        assert self._is_ready.wait(10)
        try:
            yield f"http://127.0.0.1:{self.port}/v1"
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(10)
            self._loop.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=1024)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
        length = next(int(value) for name, _, value in lines if name == b"content-length")
        request = json.loads(await reader.readexactly(length))
        self.requests += 1
        self.open_streams += 1
        try:
            await self._stream(request, writer)
        except ConnectionError:
            return  # the worker has hung up
        finally:
            self.open_streams -= 1
            writer.close()

    async def _stream(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(_HEAD + _chunk(_delta({"role": "assistant", "content": ""})))
        wanted = self.wanted.get(request["model"], [])
        if wanted and not any(message["role"] == "tool" for message in request["messages"]):
            calls = [
                {"index": n, "id": f"c{n}", "function": {"name": name, "arguments": "{}"}}
                for n, name in enumerate(wanted)
            ]
            writer.write(_chunk(_delta({"tool_calls": calls})) + _chunk(_delta({}, "tool_calls")))
        else:
            while not self.in_hurry.is_set():
                writer.write(_chunk(_delta({"content": "word "})))
                await writer.drain()
                await asyncio.sleep(1.0)
            writer.write(_chunk(_delta({"content": "Done."})) + _chunk(_delta({}, "stop")))
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        writer.write(_chunk({"choices": [], "usage": usage}) + _frame(b"data: [DONE]\n\n"))
        writer.write(b"0\r\n\r\n")
        await writer.drain()


@dataclass(slots=True)
class DrainScene:
    """Runs, their workers and their model."""

    database: Database
    workers: WorkerProcesses
    model: PatientModel
    ringer: Ringer
    folder: Path
    registry: ToolRegistry = field(default_factory=lambda: load_registry((TOOLS,)))
    runs: list[RunId] = field(default_factory=list)

    def accept(self, *tools: str, ring: bool = True) -> RunId:
        """A run whose model asks for these tools at once, and then answers."""
        name = f"model-{len(self.runs)}"
        self.model.wanted[name] = list(tools)
        policy = {"permission_mode": "full_access", **MAY_REPEAT}
        agent = AgentSpec(tools=sorted(set(tools)), policy=policy)
        run = accept(self.database, self.registry, agent, NewRequest(OWNER, "Go.", name)).run_id
        self.runs.append(run)
        if ring:
            self.ringer.ring_step(run, 1)
        return run

    def hurry(self) -> None:
        """From now on model and tools are quick."""
        (self.folder / "hurry").touch()
        self.model.in_hurry.set()

    def take_time(self) -> None:
        """From now on model and tools are slow again."""
        (self.folder / "hurry").unlink(missing_ok=True)
        self.model.in_hurry.clear()

    def end(self, worker: Worker) -> float:
        """SIGTERM; seconds until the process is gone, as they would be on a machine of its own.

        Both times are printed, measured and converted.
        """
        factor = slowness()
        began = time.monotonic()
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.has_ended.wait(30), self.workers.log()
        seconds = time.monotonic() - began
        factor = (factor + slowness()) / 2
        who = f"{worker.role} {worker.pool} -c {worker.concurrency}"
        print(f"{who}: gone after {seconds:.2f} s on a machine {factor:.1f} times slower")  # noqa: T201
        return seconds / factor

    def query(self, sql: str) -> list[Row]:
        """Rows of the record."""
        [rows] = self.database.run((sql, {}))
        return rows

    def number(self, sql: str) -> int:
        """The one number a query gives."""
        [row] = self.query(sql)
        return int(next(iter(row.values())))

    def entries(self, what: str) -> list[str]:
        """Call ids of the ledger's lines of this kind, in order."""
        path = self.folder / "ledger"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split()[1] for line in lines if line.split()[0] == what]

    @property
    def completed(self) -> int:
        """Completed runs."""
        return self.number("SELECT count(*) FROM runs WHERE status = 'completed'")


def slowness() -> float:
    """How many times longer a computation takes now than it would on an idle machine; at least 1.

    Real time over processor time of this thread.
    """
    began, own = time.monotonic(), time.thread_time()
    while time.thread_time() - own < _YARDSTICK_SECONDS:
        pass
    return max(1.0, (time.monotonic() - began) / _YARDSTICK_SECONDS)


@contextmanager
def drain_scene(place: Place, folder: Path) -> Iterator[DrainScene]:
    """A database, a broker and a model, with no worker yet."""
    with ExitStack() as stack:
        model = PatientModel()
        database = Database(place.database_url, role="drain", pool_size=4)
        stack.callback(database.close)
        environment = {
            **PATIENT_CLOCKS,
            # Whoever waits for a second announcement would be late: nothing handed back should.
            "UMBEL_RING_AFTER_SECONDS": "60",
            "UMBEL_MODEL_BASE_URL": stack.enter_context(model.listening()),
            "UMBEL_MODEL": "patient",
            "UMBEL_API_KEY": "none",
            "UMBEL_TOOLS": TOOLS,
            drain_tools.FOLDER: str(folder),
        }
        workers = stack.enter_context(WorkerProcesses(place, environment))
        app = publisher(place)
        stack.callback(app.close)
        yield DrainScene(database, workers, model, Ringer(app), folder)


def _delta(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def _chunk(value: dict[str, Any]) -> bytes:
    return _frame(f"data: {json.dumps(value)}\n\n".encode())


def _frame(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
