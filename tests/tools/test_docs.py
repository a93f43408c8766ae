"""The guide's code is real: it is loaded, run and compared with the example folder."""

import importlib
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from loop.response import ProposedCall
from tests.factories import a_tool
from tests.tools.web.servers import listening, page
from tools.beneath import MAX_PATH_BYTES
from tools.builtin import BUILTIN, search
from tools.builtin.evidence import MAX_CHARS
from tools.builtin.web import MAX_TEXT_BYTES
from tools.chunks import CHUNK_CHARS
from tools.encoding import MAX_DEPTH, MAX_VALUES
from tools.hooks import load_hooks
from tools.preflight import ClearedCall, RefusedCall, judge_calls
from tools.registry import load_registry
from tools.result import MAX_RESULT_BYTES
from tools.streaming import MAX_STREAM_CHARS
from tools.web.dialling import LEAST_BYTES_PER_SECOND, MAX_HEADER_BYTES, WAIT_SECONDS
from tools.web.html import MAX_BYTES as MAX_HTML_BYTES
from tools.workspace import READ_LIMIT_BYTES, WRITE_LIMIT_BYTES
from umbel.errors import InvalidInput
from umbel.strict_json import DEFAULT_LIMITS
from umbel.testing import UnknownOutcome, call_tool
from umbel.tool import ToolFailed

REPOSITORY = Path(__file__).parents[2]
GUIDE = (REPOSITORY / "docs/tools.md").read_text()
EXAMPLE = REPOSITORY / "examples/word_count_tool"


def blocks() -> dict[str, str]:
    """Python blocks of the guide by the file name in their first line."""
    return dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", GUIDE, re.DOTALL))


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A folder with the guide's files on the import path; the module that loads them."""
    folder = tmp_path / "guide"
    folder.mkdir()
    for name, source in blocks().items():
        (folder / name).write_text(source)
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(str(folder))
    return importlib


def test_every_python_block_of_the_guide_is_named_and_so_is_run() -> None:
    assert GUIDE.count("```python") == len(blocks())


def test_the_guides_tool_is_the_one_in_the_example_folder() -> None:
    for name in ("word_count_tool.py", "test_word_count_tool.py"):
        assert blocks()[name] == (EXAMPLE / name).read_text()


def test_the_guides_tool_is_ten_lines_long() -> None:
    lines = [line for line in blocks()["word_count_tool.py"].splitlines() if line.strip()]
    assert len(lines) <= 10


def test_the_guides_tool_is_found_by_its_module_name(load: ModuleType) -> None:
    tool = load_registry(["word_count_tool"]).get("word_count")
    assert tool.description == "Count the words of a text file in the workspace."
    assert tool.input_schema["properties"]["path"]["description"].startswith("File, relative")


@pytest.mark.usefixtures("load")
def test_the_guides_preflight_hook_judges_as_it_says() -> None:
    hooks = load_hooks(["acme_checks:small_payments_only"])
    schema = {"type": "object", "properties": {"cents": {"type": "integer"}}}
    tools = {name: a_tool(name, effect="mutation", schema=schema).frozen() for name in ("pay", "x")}

    def judged(name: str, cents: int) -> ClearedCall | RefusedCall:
        text = json.dumps({"cents": cents})
        wanted = ProposedCall(model_id="c", name=name, status="ok", arguments_text=text)
        return judge_calls([wanted], tools, hooks)[0]

    paid, other, refused = judged("pay", 5), judged("x", 5), judged("pay", 100_001)
    assert isinstance(paid, ClearedCall)
    assert paid.needs_approval
    assert isinstance(other, ClearedCall)
    assert not other.needs_approval
    assert isinstance(refused, RefusedCall)
    assert refused.code == "too_much"


def test_the_guides_own_test_passes(load: ModuleType, tmp_path: Path) -> None:
    module = load.import_module("test_word_count_tool")
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test(tmp_path)


def test_the_guides_change_fails_definitely_or_leaves_its_outcome_unknown(
    load: ModuleType,
) -> None:
    transfer = load.import_module("mutation_tool").transfer
    moved = call_tool(transfer, sender="ann", receiver="bob", amount=4)
    assert moved == {"reference": "call_trial", "left": 6}
    with pytest.raises(ToolFailed, match="nothing was moved"):
        call_tool(transfer, sender="ann", receiver="bob", amount=7)
    with pytest.raises(UnknownOutcome, match="KeyError"):
        call_tool(transfer, sender="ann", receiver="eve", amount=1)
    with pytest.raises(InvalidInput, match="amount: 0 must be at least 1"):
        call_tool(transfer, sender="ann", receiver="bob", amount=0)


def test_the_guides_program_runs(load: ModuleType) -> None:
    assert call_tool(load.import_module("program_tool").count_words, text="one two three") == 3


def test_the_guides_tool_of_the_web_asks_where_it_may(load: ModuleType) -> None:
    price_list = load.import_module("price_tool").price_list
    with listening([page(b'{"carrot": 2}', "application/json")]) as shop:
        address = f"http://127.0.0.1:{shop.port}"
        allowed = [f"127.0.0.1:{shop.port}"]
        assert call_tool(price_list, web_allow=allowed, shop=address) == {"carrot": 2}
        with pytest.raises(ToolFailed, match="UMBEL_WEB_ALLOW"):
            call_tool(price_list, shop=address)
        assert shop.connections == 1


def test_the_guides_stream_is_one_text(load: ModuleType) -> None:
    text = call_tool(load.import_module("export_tool").export_numbers, upto=100_000)
    assert text.startswith("0\n1\n")
    assert text.endswith("\n99999\n")


def test_the_guides_limits_are_those_of_the_code() -> None:
    mebibyte = 1024 * 1024
    for fact in (
        f"| read at once | {READ_LIMIT_BYTES // mebibyte} MiB |",
        f"| write at once | {WRITE_LIMIT_BYTES // mebibyte} MiB",
        f"{DEFAULT_LIMITS.string_chars:,} characters a string",
        f"| path | {MAX_PATH_BYTES:,} bytes |",
        f"{MAX_RESULT_BYTES // mebibyte} MiB, {MAX_VALUES:,} values, {MAX_DEPTH} levels",
        f"| result, in pieces | {MAX_STREAM_CHARS:,} characters; about a chunk of {CHUNK_CHARS:,}",
        f"result that is longer than {CHUNK_CHARS:,} characters",
        f"| one page of evidence | {MAX_CHARS:,} characters |",
        f"{MAX_HEADER_BYTES // 1024} KiB of header, {MAX_HTML_BYTES // mebibyte} MiB of",
        f"HTML, {MAX_TEXT_BYTES // mebibyte} MiB of other text",
        f"silent for {WAIT_SECONDS:g} s, and then has to send",
        f"send {LEAST_BYTES_PER_SECOND // 1024} KiB a second",
        f"up to {search.MAX_FILE_BYTES // mebibyte} MiB, {search.MAX_FILES:,} files, "
        f"{search.MAX_TOTAL_BYTES // mebibyte} MiB in all",
    ):
        assert fact in GUIDE


def test_the_guide_lists_every_built_in_tool() -> None:
    for function in BUILTIN:
        assert f"| `{function.__name__}` |" in GUIDE
