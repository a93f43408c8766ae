import sys
import textwrap
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tools import registry as registry_module
from tools.definition import from_function
from tools.registry import ToolRegistry, load_registry
from umbel.errors import Misconfigured

BUILTIN = (
    "evidence_read",
    "list_files",
    "read_file",
    "search_files",
    "web_read",
    "write_file",
)
Write = Callable[[str, str], str]

GREET = '''
import umbel
from tools.definition import Tool

@umbel.tool(effect="read")
def greet(name: str) -> str:
    """Greet."""
    return f"hello {name}"

def not_a_tool():
    pass
'''


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write an importable module; its name comes back."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def module(name: str, source: str) -> str:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    return module


def test_without_modules_there_are_the_built_in_tools() -> None:
    assert load_registry([]).names() == BUILTIN


def test_a_module_gives_its_marked_functions(write: Write) -> None:
    registry = load_registry([f" {write('acme_greet', GREET)} ", "", " "])
    assert "greet" in registry
    assert registry.get("greet").function.__name__ == "greet"
    assert len(registry) == len(BUILTIN) + 1


def test_a_module_gives_tool_objects_and_what_it_lists_under_tools(write: Write) -> None:
    source = GREET + (
        "\nschema = {'type': 'object'}"
        "\nalone = Tool(name='alone', description='d', input_schema=schema, function=not_a_tool)"
        "\nTOOLS = (Tool(name=n, description='d', input_schema=schema, function=not_a_tool)"
        " for n in ('one', 'two'))\n"
    )
    registry = load_registry([write("acme_listed", source)])
    assert {"greet", "alone", "one", "two"} <= set(registry.names())


def test_a_lazy_object_in_a_module_is_left_asleep(write: Write) -> None:
    source = (
        GREET
        + """
class Lazy:
    @property
    def __class__(self):
        raise RuntimeError("awake")
    def __getattr__(self, name):
        raise RuntimeError("awake")
proxy = Lazy()
"""
    )
    assert "greet" in load_registry([write("acme_lazy", source)])


def test_a_function_met_twice_is_one_tool(write: Write) -> None:
    write("acme_twice", GREET)
    again = write("acme_again", "from acme_twice import greet\nTOOLS = [greet]\n")
    registry = load_registry(["acme_twice", again, again])
    assert len(registry) == len(BUILTIN) + 1


def test_two_tools_of_one_name_are_refused_with_both_places(write: Write) -> None:
    names = [write("acme_one", GREET), write("acme_two", GREET)]
    with pytest.raises(Misconfigured) as caught:
        load_registry(names)
    assert "acme_one:greet" in str(caught.value)
    assert "acme_two:greet" in str(caught.value)


def test_a_built_in_tool_cannot_be_replaced_by_accident(write: Write) -> None:
    source = GREET.replace("def greet", "def read_file")
    with pytest.raises(Misconfigured, match=r"tools\.builtin\.files:read_file"):
        load_registry([write("acme_shadow", source)])


@pytest.mark.parametrize(
    ("source", "fact"),
    [
        ("import missing_library", "missing_library"),
        ("raise ValueError('no key')", "ValueError: no key"),
        ("import sys\nsys.exit(4)", "SystemExit: 4"),
        ("def broken(:", "SyntaxError"),
        ("x = 1", "There is no tool"),
        ("TOOLS = 3", "holds a int"),
        ("TOOLS = ['greet']", "holds a str"),
        ("TOOLS = {'a': 1}", "holds a dict"),
        (GREET.replace("name: str", "name"), "has no annotation"),
    ],
)
def test_a_module_that_gives_no_usable_tool_is_refused_with_the_reason(
    write: Write, source: str, fact: str
) -> None:
    with pytest.raises(Misconfigured) as caught:
        load_registry([write("acme_broken", source)])
    assert "acme_broken" in str(caught.value)
    assert fact in str(caught.value)


def test_a_module_that_does_not_exist_is_named() -> None:
    with pytest.raises(Misconfigured, match="acme_nowhere"):
        load_registry(["acme_nowhere"])


@pytest.mark.parametrize("value", ["acme_entry", "acme_entry:greet", "acme_entry:TOOLS"])
def test_installed_packages_give_tools_through_their_entry_points(
    write: Write, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("acme_entry", GREET + "\nTOOLS = [greet]\n")
    points = [EntryPoint("greetings", value, "umbel.tools")]
    monkeypatch.setattr(registry_module, "entry_points", lambda group: points)
    assert "greet" in load_registry([])


def test_an_entry_point_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("greetings", "acme_absent", "umbel.tools")]
    monkeypatch.setattr(registry_module, "entry_points", lambda group: points)
    with pytest.raises(Misconfigured, match="entry point 'greetings'"):
        load_registry([])


def test_selection_follows_the_allow_list() -> None:
    registry = load_registry([])
    assert tuple(tool.name for tool in registry.select(None)) == BUILTIN
    allowed = registry.select(["write_file", "list_files", "write_file"])
    assert [tool.name for tool in allowed] == ["write_file", "list_files"]
    assert registry.select([]) == ()


def test_an_allow_list_with_an_unknown_name_is_refused() -> None:
    with pytest.raises(Misconfigured, match=r"\['send_mial'\].*list_files"):
        load_registry([]).select(["list_files", "send_mial"])


def test_an_unknown_name_is_refused_with_a_remedy() -> None:
    with pytest.raises(Misconfigured, match="UMBEL_TOOLS"):
        load_registry([]).get("nowhere")


def test_a_worker_sees_which_frozen_tools_it_lacks_or_knows_differently() -> None:
    registry = load_registry([])
    frozen = [tool.frozen() for tool in registry.select(None)]
    assert registry.differing(frozen) == ()
    frozen[0]["version"] = "99"
    frozen.append({**frozen[1], "name": "gone"})
    assert registry.differing(frozen) == ("evidence_read", "gone")


def test_the_order_of_tools_does_not_depend_on_the_order_of_loading() -> None:
    tools = list(load_registry([]).select(None))
    assert ToolRegistry(reversed(tools)).names() == ToolRegistry(tools).names()
    assert from_function(tools[0].function).frozen() == tools[0].frozen()
