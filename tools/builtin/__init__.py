"""Tools that every deployment has."""

from collections.abc import Callable
from typing import Final

from tools.builtin.evidence import evidence_read
from tools.builtin.files import list_files, read_file, write_file
from tools.builtin.search import search_files
from tools.builtin.web import web_read

BUILTIN: Final[tuple[Callable[..., object], ...]] = (
    list_files,
    read_file,
    search_files,
    write_file,
    evidence_read,
    web_read,
)
