import json
from collections.abc import Callable
from typing import Any, Protocol

import httpx2
import pytest

from loop.request import (
    AssistantCall,
    AssistantMessage,
    Message,
    ModelRequest,
    OfferedTool,
    ToolMessage,
    UserMessage,
)
from loop.response import ModelTurn
from providers.demo import DemoServer
from providers.demo_script import INTRO
from tests.providers.endpoint import control, provider_at

TOOLS = tuple(
    OfferedTool(name, name, {"type": "object"})
    for name in ("search_files", "list_files", "read_file", "write_file")
)
READS = TOOLS[:3]
Answer = Callable[[dict[str, Any]], object]


class Caller(Protocol):
    """Carries out calls."""

    def call(self, call_id: str, name: str, arguments: dict[str, Any]) -> str:
        """The view of the result."""


class Workspace:
    """Files in memory, with tools that answer as the built-in ones do."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.broken: dict[str, str] = {}

    def call(self, call_id: str, name: str, arguments: dict[str, Any]) -> str:
        """The view of the result, as a prompt shows it."""
        self.asked.append((name, arguments))
        if name in self.broken:
            return json.dumps({"error": {"code": "failed", "message": self.broken[name]}})
        answer: Answer = getattr(self, name)
        return json.dumps(answer(arguments), separators=(",", ":"), ensure_ascii=False)

    def search_files(self, given: dict[str, Any]) -> object:
        matches = [
            {"path": path, "line": number, "text": line}
            for path, text in self.files.items()
            for number, line in enumerate(text.split("\n"), 1)
            if given["query"].lower() in line.lower()
        ]
        return {"matches": matches, "files_searched": len(self.files), "cut": False}

    def list_files(self, given: dict[str, Any]) -> object:
        files = [{"path": p, "kind": "file", "size_bytes": len(t)} for p, t in self.files.items()]
        return {"path": given["path"], "files": files}

    def read_file(self, given: dict[str, Any]) -> object:
        text = self.files[given["path"]]
        total = len(text.split("\n"))
        return {
            "path": given["path"], "start_line": 1, "end_line": total, "total_lines": total,
            "text": text,
        }  # fmt: skip

    def write_file(self, given: dict[str, Any]) -> object:
        self.files[given["path"]] = given["text"]
        return {"path": given["path"], "size_bytes": len(given["text"])}


def run(
    request: str,
    workspace: Caller,
    tools: tuple[OfferedTool, ...] = TOOLS,
    earlier: str = "old request",
) -> str:
    """Carry a request through the demo model over HTTP; returns its final words."""
    messages: list[Message] = [UserMessage(earlier), AssistantMessage("old answer")]
    messages.append(UserMessage(request))
    with DemoServer() as server:
        for _ in range(120):
            turn = _turn(server.base_url, messages, tools)
            assert turn.failure is None, turn.failure
            assert turn.usage.total_tokens
            if not turn.calls:
                return turn.text
            messages += _carried_out(turn, workspace)
    raise AssertionError("the demo model does not come to an end")


def _turn(base_url: str, messages: list[Message], tools: tuple[OfferedTool, ...]) -> ModelTurn:
    provider = provider_at(base_url)
    asked = ModelRequest("demo", tuple(messages), tools)
    return provider.stream(asked, provider.render(asked, provider.form()), control())


def _carried_out(turn: ModelTurn, workspace: Caller) -> list[Message]:
    assert all(call.status == "ok" for call in turn.calls)
    calls = [
        AssistantCall(
            call.model_id.replace("call_", "call_01"), call.name, call.arguments_text or "", {}
        )
        for call in turn.calls
    ]
    results = [
        ToolMessage(
            c.call_id, c.name, workspace.call(c.call_id, c.name, json.loads(c.arguments_text))
        )
        for c in calls
    ]
    return [AssistantMessage(turn.text, tuple(calls)), *results]


def test_demo_searches_reads_and_quotes_with_file_and_line() -> None:
    files = {"a.txt": "nothing\n", "docs/b.md": "one\ntwo\nThe Needle is here.\n"}
    workspace = Workspace(files)
    answer = run('Where is "needle" written?', workspace)
    assert answer.startswith(INTRO)
    assert "docs/b.md, line 3" in answer
    assert "The Needle is here." in answer
    assert workspace.asked == [
        ("search_files", {"query": "needle"}),
        ("list_files", {"path": "."}),
        ("read_file", {"path": "docs/b.md"}),
    ]


def test_demo_takes_the_longest_word_without_a_quotation() -> None:
    workspace = Workspace({"a.md": "some configuration\n"})
    assert "a.md, line 1" in run("What about configuration here?", workspace)
    assert workspace.asked[0] == ("search_files", {"query": "configuration"})


def test_demo_says_when_nothing_is_found() -> None:
    answer = run('find "unicorn"', Workspace({"a.md": "x", "b.md": "y"}))
    assert "found nothing for “unicorn”" in answer
    assert "a.md, b.md" in answer


def test_demo_goes_on_when_tools_fail() -> None:
    workspace = Workspace({"a.md": "the needle\n"})
    workspace.broken = {"read_file": "disk on fire"}
    assert "a.md, line 1," in run('find "needle"', workspace)
    workspace.broken = {"search_files": "no search today", "list_files": "no list"}
    assert "no search today" in run('find "needle"', workspace)


def test_demo_writes_the_text_it_is_told_to_write() -> None:
    workspace = Workspace({})
    answer = run('write "hello world" into notes.txt', workspace)
    assert workspace.files == {"notes.txt": "hello world"}
    assert workspace.asked == [("write_file", {"path": "notes.txt", "text": "hello world"})]
    assert "I wrote notes.txt" in answer


def test_demo_writes_what_it_found() -> None:
    workspace = Workspace({"a.md": "x\nthe needle\n"})
    run("Search for needle and write the result to out/found.txt", workspace)
    assert workspace.files["out/found.txt"] == "a.md:2: the needle\n"


def test_demo_says_that_a_write_was_refused() -> None:
    workspace = Workspace({})
    workspace.broken = {"write_file": "the owner said no"}
    assert "could not write notes.txt: the owner said no" in run(
        'write "x" into notes.txt', workspace
    )


@pytest.mark.parametrize(
    "request_text", ["Where do we write to config.py?", 'What does "x" put in config.py?']
)
def test_demo_does_not_write_because_of_a_question(request_text: str) -> None:
    workspace = Workspace({"config.py": "we x\n"})
    run(request_text, workspace)
    assert workspace.files == {"config.py": "we x\n"}


def test_demo_without_tools_still_answers() -> None:
    assert run("hello there", Workspace({}), ()).startswith(INTRO)


def test_demo_needs_only_the_tools_it_is_offered() -> None:
    workspace = Workspace({"a.md": "the needle\n"})
    run('write "x" into b.md then find needle', workspace, READS)
    assert list(workspace.files) == ["a.md"]


def test_demo_answers_whole_when_no_stream_is_asked_for() -> None:
    with DemoServer() as server, httpx2.Client(trust_env=False) as client:
        body = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}
        answer = client.post(f"{server.base_url}/chat/completions", json=body).json()
        refused = client.post(f"{server.base_url}/chat/completions", content=b"[]")
        lost = client.get(f"{server.base_url}/nowhere")
    assert answer["choices"][0]["message"]["content"].startswith(INTRO)
    assert (refused.status_code, lost.status_code) == (400, 404)
