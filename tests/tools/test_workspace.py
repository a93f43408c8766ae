import ctypes
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools import beneath
from tools.workspace import DirectoryWorkspace
from umbel.errors import InvalidInput, Misconfigured, NotFound, Unavailable

CASE = Path(__file__).parents[1] / "data/cases/badinput/21-path-traversal.json"
SECRET = "outside-secret"


@pytest.fixture(params=["openat2", "by parts"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace folder with a secret beside it, for both ways of walking."""
    if request.param == "by parts":
        monkeypatch.setattr(beneath, "has_openat2", lambda: False)
    elif not beneath.has_openat2():
        pytest.skip("this kernel or sandbox has no openat2")
    folder = tmp_path / "run1"
    folder.mkdir()
    for outside in (tmp_path / "run1-evil", tmp_path / "run2"):
        outside.mkdir()
        (outside / "x").write_text(SECRET)
        (outside / "secret.txt").write_text(SECRET)
    return folder


def contents(folder: Path) -> dict[str, str]:
    """Everything below a folder, links not followed."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(parent, name)
            found[str(path)] = path.read_text() if path.is_file() else "folder"
    return found


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def outside_of(root: Path) -> dict[str, str]:
    return {**contents(root.parent / "run1-evil"), **contents(root.parent / "run2")}


def test_a_written_file_is_read_back_and_its_folders_are_made(root: Path) -> None:
    workspace = DirectoryWorkspace(root)
    assert workspace.write_text("a/b/ü.txt", "grüße\n") == 8
    assert workspace.read_text("a/b/ü.txt") == "grüße\n"
    assert workspace.read_text("./a/./b/ü.txt") == "grüße\n"
    assert (root / "a/b/ü.txt").read_text() == "grüße\n"


def test_replacing_keeps_the_permissions_and_leaves_no_temporary_file(root: Path) -> None:
    workspace = DirectoryWorkspace(root)
    workspace.write_text("tool.sh", "1")
    (root / "tool.sh").chmod(0o750)
    workspace.write_text("tool.sh", "2")
    assert stat.S_IMODE((root / "tool.sh").stat().st_mode) == 0o750
    assert names_in(root) == ["tool.sh"]


def test_the_root_may_be_given_through_a_link(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    DirectoryWorkspace(link).write_text("a.txt", "1")
    assert (root / "a.txt").read_text() == "1"


def test_listing_names_kinds_and_sizes_in_order(root: Path) -> None:
    workspace = DirectoryWorkspace(root)
    workspace.write_text("sub/b.txt", "12")
    workspace.write_text("sub/a.txt", "1")
    (root / "sub/link").symlink_to("a.txt")
    os.mkfifo(root / "sub/pipe")
    (root / "sub/inner").mkdir()
    listed = [(entry.path, entry.kind) for entry in workspace.list_files("sub/")]
    assert listed == [
        ("sub/a.txt", "file"),
        ("sub/b.txt", "file"),
        ("sub/inner", "folder"),
        ("sub/link", "link"),
        ("sub/pipe", "other"),
    ]
    assert workspace.list_files("sub")[1].size_bytes == 2
    assert [entry.path for entry in workspace.list_files(".")] == ["sub"]


def test_walking_finds_every_regular_file_and_follows_no_link(root: Path) -> None:
    workspace = DirectoryWorkspace(root)
    for path in ("z.txt", "a/b/c.txt", "a/d.txt"):
        workspace.write_text(path, "1")
    (root / "a/loop").symlink_to(root)
    (root / "out").symlink_to(root.parent / "run2")
    assert [entry.path for entry in workspace.walk(".")] == ["a/b/c.txt", "a/d.txt", "z.txt"]
    assert [entry.path for entry in workspace.walk("a")] == ["a/b/c.txt", "a/d.txt"]


def test_walking_ends_at_the_limit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.workspace.MAX_ENTRIES", 3)
    workspace = DirectoryWorkspace(root)
    for number in range(4):
        workspace.write_text(f"{number}.txt", "")
    with pytest.raises(InvalidInput, match="more than 3 entries"):
        workspace.walk(".")


ESCAPES = [
    *json.loads(CASE.read_text())["given"]["path"],
    "..",
    "../",
    "./..",
    "a/..",
    "a/../..",
    "../run1-evil/x",
    "../run1/../run2/secret.txt",
    "//etc/passwd",
    "/",
    "a//b",
    "//",
    "a\x00b",
    "\x00",
    "../run2/secret.txt\x00.txt",
    "~/x",
    "$HOME/x",
    "file:///etc/passwd",
    "..%2f..%2fetc/passwd",
    "%2e%2e%2fsecret.txt",
    "..\u2215..\u2215etc\u2215passwd",
    "\uff0e\uff0e/run2/secret.txt",
    "\u2025/run2/secret.txt",
    "..\u200b/run2/secret.txt",
    "..;/run2/secret.txt",
    ".../run2/secret.txt",
    ".. /run2/secret.txt",
    "a\n../run2/secret.txt",
    "\ud800/x",
    "\udc2e\udc2e/run2/secret.txt",
    "x" * 300,
    "a/" * 3000 + "b",
    "link-up/run2/secret.txt",
    "link-abs/secret.txt",
    "link-file",
    "link-inside/a.txt",
    "link-dangling",
    "dir/link-up/secret.txt",
    "/proc/self/root/etc/passwd",
    "proc/self/root",
    "fifo",
    "socket",
    "dir",
    "file.txt/",
    "file.txt/x",
]


def plant_traps(root: Path) -> None:
    (root / "dir").mkdir()
    (root / "file.txt").write_text("inside")
    (root / "a.txt").write_text("inside")
    (root / "link-up").symlink_to("..")
    (root / "link-abs").symlink_to(root.parent / "run2")
    (root / "link-file").symlink_to(root.parent / "run2/secret.txt")
    (root / "link-inside").symlink_to("dir")
    (root / "link-dangling").symlink_to(root.parent / "run2/new.txt")
    (root / "dir/link-up").symlink_to("../../run2")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(root)  # unix socket paths are short
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)


@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_reads_anything_that_is_not_a_regular_file_inside(root: Path, path: str) -> None:
    plant_traps(root)
    with pytest.raises((InvalidInput, NotFound)) as caught:
        DirectoryWorkspace(root).read_bytes(path)
    assert str(root.parent) not in str(caught.value)
    str(caught.value).encode()


@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_writes_outside(root: Path, path: str) -> None:
    plant_traps(root)
    before = outside_of(root)
    try:
        DirectoryWorkspace(root).write_text(path, "planted")
    except (InvalidInput, NotFound):
        pass
    else:
        assert "planted" in contents(root).values()
    assert outside_of(root) == before
    assert names_in(root.parent) == ["run1", "run1-evil", "run2"]


@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_lists_a_folder_outside(root: Path, path: str) -> None:
    plant_traps(root)
    try:
        listed = DirectoryWorkspace(root).list_files(path)
    except (InvalidInput, NotFound):
        return
    inside = {*names_in(root), *names_in(root / "dir")}
    assert {entry.path.rpartition("/")[2] for entry in listed} <= inside


def test_the_percent_form_is_a_plain_file_name(root: Path) -> None:
    workspace = DirectoryWorkspace(root)
    workspace.write_text("%2e%2e/%2e%2e/etc", "plain")
    assert (root / "%2e%2e" / "%2e%2e" / "etc").read_text() == "plain"
    workspace.write_text("..\\..\\x", "plain")
    assert (root / "..\\..\\x").read_text() == "plain"


def test_a_refused_link_says_that_links_are_not_followed(root: Path) -> None:
    plant_traps(root)
    with pytest.raises(InvalidInput, match="links are not followed"):
        DirectoryWorkspace(root).read_text("link-inside/a.txt")


def test_writing_over_a_hard_link_leaves_the_file_outside_alone(root: Path) -> None:
    outside = root.parent / "run2/secret.txt"
    (root / "hard.txt").hardlink_to(outside)
    DirectoryWorkspace(root).write_text("hard.txt", "mine")
    assert outside.read_text() == SECRET
    assert (root / "hard.txt").read_text() == "mine"


def test_reading_a_pipe_does_not_wait_for_its_writer(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(InvalidInput, match="not a regular file"):
        DirectoryWorkspace(root).read_bytes("pipe")


def test_a_device_is_refused(root: Path) -> None:
    try:
        os.mknod(root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")
    with pytest.raises(InvalidInput):
        DirectoryWorkspace(root).read_bytes("zero")


def test_sizes_are_limited_with_the_numbers_in_the_error(root: Path) -> None:
    workspace = DirectoryWorkspace(root, read_limit_bytes=10, write_limit_bytes=5)
    (root / "large").write_text("x" * 11)
    with pytest.raises(InvalidInput, match="has 11 bytes, at most 10"):
        workspace.read_bytes("large")
    assert workspace.read_bytes("large", 4) == b"xxxx"
    assert workspace.read_bytes("large", 400) == b"x" * 10
    (root / "fits").write_text("x" * 10)
    assert workspace.read_bytes("fits") == b"x" * 10
    with pytest.raises(InvalidInput, match="has 6 bytes, at most"):
        workspace.write_text("new", "ääa"[:2] + "aa")
    assert not (root / "new").exists()


def test_bytes_that_are_not_utf8_are_shown_as_replacement_characters(root: Path) -> None:
    (root / "latin").write_bytes(b"gr\xfc\xdfe")
    assert DirectoryWorkspace(root).read_text("latin") == "gr\ufffd\ufffde"


def test_text_that_is_no_unicode_is_not_written(root: Path) -> None:
    with pytest.raises(InvalidInput, match="half a surrogate pair at character 1"):
        DirectoryWorkspace(root).write_text("a.txt", "x\ud83d")
    assert names_in(root) == []


def test_names_that_are_not_utf8_are_listed_and_harm_nothing(root: Path) -> None:
    (root / os.fsdecode(b"caf\xe9")).write_text("1")
    (root / os.fsdecode(b"d\xe9")).mkdir()
    workspace = DirectoryWorkspace(root)
    assert len(workspace.list_files(".")) == 2
    assert len(workspace.walk(".")) == 1


@pytest.mark.parametrize("path", [".", "./", "dir/", "dir"])
def test_a_folder_is_not_written_over(root: Path, path: str) -> None:
    (root / "dir").mkdir()
    with pytest.raises(InvalidInput):
        DirectoryWorkspace(root).write_text(path, "x")
    assert names_in(root) == ["dir"]


def test_a_root_that_is_missing_or_a_file_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="create the folder"):
        DirectoryWorkspace(tmp_path / "gone")
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="is no folder"):
        DirectoryWorkspace(tmp_path / "file")


def test_a_root_that_vanishes_is_said_and_not_made_again(root: Path) -> None:
    workspace = DirectoryWorkspace(root)
    root.rmdir()
    for act in (
        lambda: workspace.read_bytes("a"),
        lambda: workspace.list_files("."),
        lambda: workspace.walk("."),
        lambda: workspace.write_text("a", "1"),
    ):
        with pytest.raises(NotFound, match="workspace folder itself"):
            act()
    assert not root.exists()


def test_a_root_that_was_replaced_is_not_touched(root: Path) -> None:
    workspace = DirectoryWorkspace(root)
    root.rename(root.parent / "moved")
    root.mkdir()
    (root / "other.txt").write_text("of somebody else")
    with pytest.raises(NotFound, match="replaced"):
        workspace.read_text("other.txt")
    with pytest.raises(NotFound, match="replaced"):
        workspace.write_text("other.txt", "x")
    (root / "other.txt").unlink()
    root.rmdir()
    root.symlink_to(root.parent / "run2")
    with pytest.raises(NotFound, match="workspace folder itself"):
        workspace.read_text("secret.txt")


def test_a_failed_write_leaves_the_old_file_and_no_remains(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = DirectoryWorkspace(root)
    workspace.write_text("a.txt", "old")

    def full(*_arguments: object, **_names: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(Unavailable, match="No space left on device"):
        workspace.write_text("a.txt", "new")
    assert (root / "a.txt").read_text() == "old"
    assert names_in(root) == ["a.txt"]


@pytest.fixture
def flipping(root: Path) -> Iterator[threading.Event]:
    """`root/d` changes between a folder and a link to the outside as fast as it can."""
    stop = threading.Event()
    (root / "d").mkdir()
    (root / "l").symlink_to(root.parent / "run2")

    exchange = ctypes.CDLL(None).renameat2
    here, one, other = -100, bytes(root / "d"), bytes(root / "l")  # AT_FDCWD

    if exchange(here, one, here, other, 2) != 0:
        pytest.skip("this file system cannot exchange two names")

    def flip() -> None:
        while not stop.is_set():
            assert exchange(here, one, here, other, 2) == 0  # RENAME_EXCHANGE: never absent

    thread = threading.Thread(target=flip)
    thread.start()
    yield stop
    stop.set()
    thread.join()


def test_a_folder_flipped_into_a_link_while_writing_never_leads_outside(
    root: Path, flipping: threading.Event
) -> None:
    workspace = DirectoryWorkspace(root)
    before = outside_of(root)
    written = refused = 0
    for number in range(10_000):
        try:
            workspace.write_text("d/race.txt", str(number))
            written += 1
        except (InvalidInput, NotFound, Unavailable):
            refused += 1
    flipping.set()
    assert outside_of(root) == before
    assert written > 0
    assert refused > 0


def test_a_folder_flipped_into_a_link_while_reading_never_shows_the_outside(
    root: Path, flipping: threading.Event
) -> None:
    workspace = DirectoryWorkspace(root)
    refused = 0
    for _ in range(2500):
        try:
            assert SECRET.encode() not in workspace.read_bytes("d/secret.txt")
        except (InvalidInput, NotFound, Unavailable):
            refused += 1
    assert refused > 0


PARTS = st.sampled_from(["..", ".", "", "a", "run2", "link-up", "dir", "secret.txt", "\\", "%2e"])


@given(st.lists(PARTS, max_size=6).map("/".join) | st.text(max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_no_made_up_path_gets_at_the_secret(root: Path, path: str) -> None:
    if not (root / "dir").exists():
        plant_traps(root)
    before = outside_of(root)
    workspace = DirectoryWorkspace(root)
    for act in (lambda: workspace.read_bytes(path), lambda: workspace.write_text(path, "x")):
        with suppress(InvalidInput, NotFound):
            assert act() != SECRET.encode()
    assert outside_of(root) == before


@pytest.mark.parametrize(
    "path",
    [
        "umbel.toml",
        "UMBEL.TOML",
        "sub/umbel.toml",
        "umbel.toml/x",
        "./umbel.toml",
        "umbel.toml ",
        "\uff55mbel.toml",
    ],
)
def test_settings_of_umbel_are_not_written_where_it_looks_for_them(root: Path, path: str) -> None:
    (root / "umbel.toml").write_text("tenant = 'mine'\n")
    before = contents(root)
    with pytest.raises(InvalidInput, match="no tool writes that file"):
        DirectoryWorkspace(root).write_text(path, "[agents.default]\npermission = 'full_access'\n")
    assert contents(root) == before


@pytest.mark.parametrize("named", ["mine.conf", "link.conf"])
def test_the_settings_file_of_this_process_is_not_replaced(
    root: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    (root / "mine.conf").write_text("tenant = 'mine'\n")
    (root / "link.conf").symlink_to("mine.conf")
    monkeypatch.setenv("UMBEL_CONFIG", str(root / named))
    workspace = DirectoryWorkspace(root)
    for path in ("mine.conf", "link.conf"):
        with pytest.raises(InvalidInput):
            workspace.write_text(path, "tenant = 'other'\n")
    assert (root / "mine.conf").read_text() == "tenant = 'mine'\n"
    assert workspace.write_text("other.conf", "x") == 1
    assert workspace.read_text("mine.conf") == "tenant = 'mine'\n"
