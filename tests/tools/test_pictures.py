import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

import umbel
from loop.outcome import Errored, Returned
from tools.capture import MemoryCapture
from tools.definition import Tool
from tools.execution import run_tool
from tools.pictures import MAX_PICTURE_BYTES, MAX_PICTURES, split_pictures
from tools.trial import TrialContext
from umbel.names import Effect
from umbel.testing import call_tool

PNG = b"\x89PNG\r\n\x1a\n-"
KINDS = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0-",
    "image/gif": b"GIF89a-",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBP-",
}


def b64(body: bytes) -> str:
    return base64.b64encode(body).decode()


def run(value: object, effect: Effect = "read") -> tuple[Any, MemoryCapture]:
    give: Callable[..., object] = lambda **_: value  # noqa: E731
    tool = Tool(
        name="t", description="d", input_schema={"type": "object"}, function=give, effect=effect
    )
    memory = MemoryCapture()
    return run_tool(tool, "{}", TrialContext(), writer=memory), memory


@pytest.mark.parametrize(("kind", "body"), KINDS.items())
def test_the_text_keeps_what_a_picture_is_and_not_its_bytes(kind: str, body: bytes) -> None:
    image = {"media_type": kind, "b64": b64(body), "tag": "first"}
    outcome, memory = run({"text": "screen 1", "images": [image], "n": 1})
    assert isinstance(outcome, Returned)
    facts = {"size_bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    assert json.loads(outcome.text) == {
        "text": "screen 1",
        "images": [{"media_type": kind, "tag": "first", **facts}],
        "n": 1,
    }
    assert outcome.capture_id == memory.capture_id
    assert outcome.chunked is None
    assert [(p.media_type, p.body) for p in memory.pictures] == [(kind, body)]


def test_bytes_need_no_base64_and_no_type() -> None:
    _, memory = run({"images": [{"data": PNG}, {"b64": b64(KINDS["image/gif"])}]})
    assert [p.media_type for p in memory.pictures] == ["image/png", "image/gif"]


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ([{"media_type": "image/jpeg", "data": PNG}], "picture 1 is image/png by its first bytes"),
        ([{"data": PNG}, {"data": b"<svg/>"}], "picture 2 is no PNG, JPEG, GIF or WebP"),
        ([{"b64": "no!"}], "picture 1 is no base64"),
        ([{"data": PNG}] * (MAX_PICTURES + 1), "9 pictures, at most 8"),
        ([{"data": PNG + b"x" * MAX_PICTURE_BYTES}], "return a smaller one"),
    ],
)
def test_what_is_no_picture_is_no_result(images: list[object], words: str) -> None:
    outcome, memory = run({"images": images})
    assert isinstance(outcome, Errored)
    assert words in json.loads(outcome.text)["error"]["message"]
    assert memory.pictures == []
    outcome, _ = run({"images": images}, "mutation")
    assert words in json.loads(outcome.text)["unreadable_result"]["message"]


@pytest.mark.parametrize(
    "value",
    [
        {"images": []},
        {"images": "iVBOR"},
        {"images": ["a.png"]},
        {"images": [{"url": "https://example.com/a.png"}]},
        {"images": [{"data": PNG}, "a.png"]},
        [{"data": PNG}],
        "text",
    ],
)
def test_other_results_are_left_as_they_are(value: object) -> None:
    assert split_pictures(value) == (value, ())


def test_a_test_of_ones_own_tool_reads_what_the_model_reads() -> None:
    @umbel.tool(effect="read")
    def screenshot() -> dict[str, object]:
        """Show the screen."""
        return {"text": "screen", "images": [{"data": PNG}]}

    assert call_tool(screenshot)["images"][0]["size_bytes"] == len(PNG)
